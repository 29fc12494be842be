"""What `kgm doctor` looks for."""
