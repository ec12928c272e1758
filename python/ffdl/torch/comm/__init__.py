"""The back end of torch.distributed, and the hook of DDP."""
