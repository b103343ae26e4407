"""scikit-learn's checks that an estimator of time series cannot pass, with the reason for each."""

_ANY_LENGTH = "expects an error for a table of different width; here a column is a step, and any length is accepted"
_DRAWN = "windows and batches are drawn at random, so a weight of two is not the same as two copies of a series"
_SINGLE = "expects agreement to 1e-7; the network computes in float32, whose last bit depends on the batch size"

BANK = {
    "check_n_features_in_after_fitting": _ANY_LENGTH,
    "check_transformer_general": _ANY_LENGTH,
}
REGRESSOR = BANK | {
    "check_estimators_partial_fit_n_features": _ANY_LENGTH,
    "check_sample_weight_equivalence_on_dense_data": _DRAWN,
}
CLASSIFIER = REGRESSOR | {"check_classifiers_train": _ANY_LENGTH}
NETWORK = {"check_methods_subset_invariance": _SINGLE}
