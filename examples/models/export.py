#!/usr/bin/python3
"""A small network of PyTorch as an ONNX file: `examples/models/digits.onnx`, which the user guide trains."""
import os, torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
    nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 10)).train()
torch.onnx.export(
    net, torch.randn(8, 1, 28, 28), os.path.join(os.path.dirname(os.path.abspath(__file__)), 'digits.onnx'),
    training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,  # batch norm and dropout as in training
    opset_version=16, input_names=['input'], output_names=['logits'], dynamic_axes={'input': {0: 'batch'}})
