-- A mirrored period belongs to the subscription that it was read of. Nobody knows that of those that are there already;
-- they are read again. The default is for processes of before, until they are replaced: it is no subscription's.
TRUNCATE billing_period;

ALTER TABLE billing_period ADD COLUMN subscription_id text NOT NULL DEFAULT '';
