-- @runs-with 0009
ALTER TABLE certificate VALIDATE CONSTRAINT certificate_token;
ALTER TABLE profile VALIDATE CONSTRAINT profile_logo_hash;
