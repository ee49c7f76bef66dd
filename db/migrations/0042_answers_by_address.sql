-- Kept answers hold addresses of this service: where it was reached when they were made up. Nobody knows that of those
-- that are there already; they are made up again.
TRUNCATE cached_answer;

ALTER TABLE cached_answer ADD COLUMN base_url text NOT NULL;
