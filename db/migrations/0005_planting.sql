-- A batch of an account's trees that a planting partner plants. One workflow polls each order.
CREATE TABLE planting_order (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  public_id text COLLATE "C" NOT NULL CONSTRAINT planting_order_public_id UNIQUE,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT planting_order_mode CHECK (mode IN ('live', 'test')),
  partner text NOT NULL,
  -- The names of partner and buyer when the order was created.
  partner_name text NOT NULL,
  buyer_name text NOT NULL,
  -- What the partner reports: allocations and planting, or only verified planting sessions.
  timeline text NOT NULL CONSTRAINT planting_order_timeline CHECK (timeline IN ('allocations', 'sessions')),
  tree_count bigint NOT NULL CONSTRAINT planting_order_tree_count CHECK (tree_count >= 1),
  -- Trees refunded since the order was created. They are planted anyway, but no longer count for the account.
  refunded_count bigint NOT NULL DEFAULT 0
    CONSTRAINT planting_order_refunded_count CHECK (refunded_count BETWEEN 0 AND tree_count),
  partner_reference text,
  stage text NOT NULL DEFAULT 'created' CONSTRAINT planting_order_stage CHECK (
    stage IN ('created', 'funds_distributed', 'allocated', 'planted', 'planted_and_verified')
  ),
  -- The sites of its trees: [{siteId, region, forestType, weight, factorId}]. The last is that of planting_tally, because
  -- another release may have another table of factors; null until the trees are planted.
  site_shares jsonb NOT NULL DEFAULT '[]',
  created_at timestamptz NOT NULL,
  planted_at timestamptz,
  verified_at timestamptz,
  -- When its partner was last polled, or its workflow started or found running. A workflow that is lost with Temporal's
  -- database, or terminated by an operator, is recognized by the missing polls of its order.
  polled_at timestamptz NOT NULL DEFAULT '-infinity',
  -- When polls had returned all that they can return. Reports may still follow.
  finished_at timestamptz,
  -- Of an order that was imported: the system that placed it, and the ids that evidence and events show instead of ours.
  imported_from text,
  imported_order_id bigint,
  imported_public_id text,
  -- A hash of what the other system has shown. Trees with the same evidence share an order.
  imported_key uuid,
  CONSTRAINT planting_order_imported CHECK (
    (partner = 'imported') = (imported_from IS NOT NULL AND imported_order_id IS NOT NULL
      AND imported_public_id IS NOT NULL AND imported_key IS NOT NULL)
  )
);

CREATE UNIQUE INDEX planting_order_imported_key
  ON planting_order (account_id, mode, imported_key) WHERE imported_key IS NOT NULL;

CREATE INDEX planting_order_account ON planting_order (account_id, id);
CREATE INDEX planting_order_planted ON planting_order (account_id, id) WHERE mode = 'live' AND planted_at IS NOT NULL;
CREATE INDEX planting_order_unfinished ON planting_order (polled_at, id) WHERE finished_at IS NULL;

CREATE SEQUENCE tree_order_id AS bigint;

-- A planting order that is not created yet. An account's registered trees of a mode join the open one. Who inserts trees, or
-- refunds trees that are not ordered yet, locks its key until the transaction ends. Closing it does not conflict with that
-- lock; later trees join another. Creating the order does, and so waits for all of them. The row is deleted then.
CREATE TABLE next_planting_order (
  id integer PRIMARY KEY DEFAULT nextval('planting_order_id_seq'),
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT next_planting_order_mode CHECK (mode IN ('live', 'test')),
  is_open boolean NOT NULL DEFAULT true
) WITH (
  -- After a day's orders, the table is empty. With its pages, the planner would lose the reason to use the index, and keep
  -- that plan while the table grows again.
  vacuum_truncate = false
);

CREATE UNIQUE INDEX next_planting_order_open ON next_planting_order (account_id, mode) WHERE is_open;

-- The details are those of the last fact that took effect and named the site.
CREATE TABLE planting_site (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  partner text COLLATE "C" NOT NULL,
  reference text COLLATE "C" NOT NULL,
  name text NOT NULL,
  subsite_name text NOT NULL,
  organization_name text NOT NULL,
  region text NOT NULL,
  country text NOT NULL,
  forest_type text NOT NULL CONSTRAINT planting_site_forest_type CHECK (forest_type IN ('mangrove', 'terrestrial')),
  latitude double precision NOT NULL CONSTRAINT planting_site_latitude CHECK (latitude BETWEEN -90 AND 90),
  longitude double precision NOT NULL CONSTRAINT planting_site_longitude CHECK (longitude BETWEEN -180 AND 180),
  main_image text NOT NULL,
  CONSTRAINT planting_site_reference UNIQUE (partner, reference)
);

-- Every fact that was reported about an order, without repetitions.
CREATE TABLE planting_fact (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id integer NOT NULL REFERENCES planting_order,
  stage text COLLATE "C" NOT NULL CONSTRAINT planting_fact_stage CHECK (
    stage IN ('funds_distributed', 'allocated', 'planted', 'planted_and_verified')
  ),
  -- accepted: in effect; waiting: an earlier stage is missing; contradiction: stored for operators; withdrawn: by an
  -- operator, because it was wrong.
  state text NOT NULL
    CONSTRAINT planting_fact_state CHECK (state IN ('accepted', 'waiting', 'contradiction', 'withdrawn')),
  -- Why it contradicts, or was withdrawn.
  reason text,
  source text NOT NULL CONSTRAINT planting_fact_source CHECK (source IN ('partner', 'callback', 'operator', 'import')),
  occurred_at timestamptz NOT NULL,
  content jsonb NOT NULL,
  digest bytea NOT NULL CONSTRAINT planting_fact_digest CHECK (length(digest) = 32),
  -- The site that the photos and videos of an accepted fact show.
  site_id integer,
  received_at timestamptz NOT NULL,
  withdrawn_at timestamptz,
  withdrawn_by text,
  CONSTRAINT planting_fact_withdrawn CHECK ((state = 'withdrawn') = (withdrawn_at IS NOT NULL AND withdrawn_by IS NOT NULL)),
  CONSTRAINT planting_fact_once UNIQUE (order_id, stage, digest)
);

CREATE UNIQUE INDEX planting_fact_accepted ON planting_fact (order_id, stage) WHERE state = 'accepted';
CREATE INDEX planting_fact_contradiction ON planting_fact (order_id) WHERE state = 'contradiction';

-- For the latest photos of a site.
CREATE INDEX planting_fact_site ON planting_fact (site_id, id)
  WHERE state = 'accepted' AND stage IN ('planted', 'planted_and_verified');

-- Planted trees by site and impact factor, updated in the transaction of each milestone and never recounted.
CREATE TABLE planting_tally (
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL,
  site_id integer NOT NULL REFERENCES planting_site,
  factor_id text COLLATE "C" NOT NULL,
  planted bigint NOT NULL CONSTRAINT planting_tally_planted CHECK (planted >= 0),
  verified bigint NOT NULL CONSTRAINT planting_tally_verified CHECK (verified >= 0),
  PRIMARY KEY (account_id, mode, site_id, factor_id)
) WITH (fillfactor = 50);

-- What GET /evidence returns to all processes until it expires or trees are planted.
CREATE TABLE evidence_summary (
  mode text COLLATE "C" NOT NULL CONSTRAINT evidence_summary_mode CHECK (mode IN ('live', 'test')),
  is_simulated boolean NOT NULL,
  content jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (mode, is_simulated)
);

-- Trees of a partner's planting record that are credited to an order. Their sum never exceeds the record.
CREATE TABLE planting_claim (
  partner text COLLATE "C" NOT NULL,
  -- The partner's reference for the record.
  reference text COLLATE "C" NOT NULL,
  order_id integer NOT NULL REFERENCES planting_order,
  trees bigint NOT NULL CONSTRAINT planting_claim_trees CHECK (trees >= 1),
  PRIMARY KEY (partner, reference, order_id)
);

CREATE INDEX planting_claim_order ON planting_claim (order_id);
