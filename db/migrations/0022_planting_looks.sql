-- A workflow can be lost: with Temporal's database, or because somebody ends it. That nobody looks at its order any more
-- is what shows it.
ALTER TABLE planting_order
  -- When its partner was last asked for news.
  ADD COLUMN looked_at timestamptz,
  -- When looking had brought all that it can bring; reports may still come.
  ADD COLUMN finished_at timestamptz;

UPDATE planting_order
SET finished_at = coalesce(verified_at, planted_at)
WHERE stage = 'planted_and_verified' OR (stage = 'planted' AND partner <> 'simulated');

-- dispatched_at is from now on when its workflow was last started or found running.
CREATE INDEX planting_order_unfinished ON planting_order (greatest(dispatched_at, looked_at)) WHERE finished_at IS NULL;
