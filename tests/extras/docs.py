"""A site with one page and one script, built with the configuration of the documentation."""

import subprocess
import sys
from pathlib import Path

project, _ = sys.argv[1:]
CONF = f"""
from pathlib import Path
__file__ = str(Path({project!r}) / "docs" / "conf.py")
exec(compile(Path(__file__).read_text(encoding="utf-8"), __file__, "exec"))
import docs.build.__main__
exclude_patterns.append("generated")  # the API pages
sphinx_gallery_conf |= {{"examples_dirs": ["scripts"], "gallery_dirs": ["gallery"]}}
html_static_path, html_css_files = [], []
"""
PAGE = """# A page

$x^2$

```{autofunction} unicornn.suggest_dt
```

```{toctree}
gallery/index
```
"""
FILES = {
    "conf.py": CONF,
    "index.md": PAGE,
    "scripts/GALLERY_HEADER.rst": "Scripts\n=======\n",
    "scripts/sum.py": '"""\nA sum\n=====\n\nOf two.\n"""\n\nprint(20 + 22)\n',
}
for name, text in FILES.items():
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", ".", "site"], check=True)
page = Path("site/index.html").read_text(encoding="utf-8")
assert "<math" in page
assert "suggest_dt" in page
assert "42" in Path("site/gallery/sum.html").read_text(encoding="utf-8")
