-- @runs-with 0009
-- The name of this installation among several behind one address. It is in keys and public paths, so it never changes once
-- there are accounts.
ALTER TABLE deployment
  ADD COLUMN cell text CONSTRAINT deployment_cell CHECK (cell ~ '^[a-z][a-z0-9]{0,7}$');

-- Tokens and the hashes of logos may follow the name of a cell.
ALTER TABLE certificate
  DROP CONSTRAINT certificate_token,
  ADD CONSTRAINT certificate_token CHECK (token ~ '^([a-z][a-z0-9]{0,7}_)?[0-9a-f]{32}$') NOT VALID;
ALTER TABLE profile
  DROP CONSTRAINT profile_logo_hash,
  ADD CONSTRAINT profile_logo_hash CHECK (logo_hash ~ '^([a-z][a-z0-9]{0,7}_)?[0-9a-f]{64}$') NOT VALID;
