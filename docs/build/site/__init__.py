"""Extensions of Sphinx that this site needs: the reference, the paper's labels, equations without a script."""
