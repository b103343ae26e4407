"""An ONNX file; export compares it with the layer in onnxruntime."""

import onnxruntime

from unicornn import UnICORNN
from unicornn.export import onnx

session = onnxruntime.InferenceSession(onnx(UnICORNN(2, 4), "layer.onnx", kind="step"))
assert [each.name for each in session.get_inputs()] == ["u", "y", "z"]
