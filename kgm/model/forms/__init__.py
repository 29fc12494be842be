"""Forms, which list the keys of JSON objects, and the objects made by them."""
