"""The back end ``ffdl`` of torch.distributed, and a communication hook for DDP."""
