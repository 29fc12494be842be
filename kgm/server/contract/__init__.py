"""What passes between connections, brokers and logs; limits, and what is kept over a restart."""
