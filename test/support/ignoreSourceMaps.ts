// ava makes Node read the source maps of all packages. Our own files need none, because Node only blanks their types out.
process.setSourceMapsEnabled(false);
