"""Programs of ATen operators, as `torch.export` writes them, become graphs here; PyTorch is not needed for that."""
