"""Groups of the classic protocol: one module for each phase of a rebalance and its requests (KIP-345)."""
