"""The ``ffdl`` back end of torch.distributed, and the communication hook of DDP."""
