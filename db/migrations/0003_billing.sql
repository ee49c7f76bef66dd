-- What belongs to this database as a whole. It has one row, which this migration creates.
CREATE TABLE deployment (
  -- Its first characters are the deployment's name in Temporal. The first program to start changes it, so that copies of
  -- an empty database differ.
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  -- Always true, so that there is at most one row.
  is_only boolean NOT NULL DEFAULT true CONSTRAINT deployment_only UNIQUE CHECK (is_only),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Who bills live usage, and whose Stripe account that is. NULL until a worker has started.
  processor text CONSTRAINT deployment_processor CHECK (processor IN ('stripe', 'ledger')),
  stripe_account_id text,
  stripe_livemode boolean,
  processor_recorded_at timestamptz,
  -- The operator who moved the deployment from the ledger to Stripe.
  processor_recorded_by text,
  -- The Stripe account, in live mode, of the deployment from which this one was copied. This one never bills through it.
  original_stripe_account_id text,
  -- When this copy became a deployment of its own. What Stripe has from before is the original's usage.
  separated_at timestamptz,
  -- Which server, history and database hold this row. They differ after a restore, a promotion or a copy.
  system_identifier text,
  timeline text,
  database_oid bigint,
  table_oid bigint,
  -- While it is held, no usage is sealed or sent.
  held_at timestamptz,
  hold_reason text,
  held_by text,
  -- The server, history and database on which the hold began, as text. Another one may have released it and sent usage.
  held_on text,
  -- The last hold that ended, and the operator who ended it.
  released_at timestamptz,
  released_by text,
  released_hold text,
  CONSTRAINT deployment_server CHECK (num_nulls(system_identifier, timeline, database_oid, table_oid) IN (0, 4)),
  CONSTRAINT deployment_hold CHECK (num_nulls(held_at, hold_reason, held_by, held_on) IN (0, 4)),
  CONSTRAINT deployment_account CHECK (
    (processor IS NOT DISTINCT FROM 'stripe') = (stripe_account_id IS NOT NULL AND stripe_livemode IS NOT NULL)
  )
);

INSERT INTO deployment DEFAULT VALUES;

-- When the sender of each shard and the dispatcher last looked for work. Each has a row after its first pass.
CREATE TABLE shard (
  kind text COLLATE "C" CONSTRAINT shard_kind CHECK (kind IN ('usage', 'webhooks', 'dispatcher')),
  number integer,
  last_pass_at timestamptz NOT NULL,
  PRIMARY KEY (kind, number)
);

-- How fast all workers together send meter events to Stripe. It has one row, which this migration creates.
CREATE TABLE call_rate (
  -- Always true, so that there is at most one row.
  is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT call_rate_only CHECK (is_only),
  -- Falls when Stripe rejects calls because there are too many, and then rises again.
  calls_per_second double precision NOT NULL DEFAULT 1000,
  -- The setting STRIPE_CALLS_PER_SECOND of the worker that started last.
  maximum_calls_per_second double precision NOT NULL DEFAULT 1000,
  -- When the rate last changed.
  changed_at timestamptz NOT NULL DEFAULT now(),
  -- Earlier calls are reserved up to this time.
  reserved_until timestamptz NOT NULL DEFAULT now()
);

INSERT INTO call_rate DEFAULT VALUES;

-- What is sent to the processor: the sum of usage facts of one account, mode and kind in one second, minus what the
-- processor already has of them.
CREATE TABLE meter_event (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  -- Unix seconds.
  second bigint NOT NULL,
  -- Counts the sealings of that second, not the attempts. A correction leaves out numbers that lost sealings may have used.
  sequence integer NOT NULL,
  -- The units to send. If the processor has only a part of them, the quantity becomes that part when the event is settled.
  -- A held or waived event loses the units of refunds that a retry of their usage, or a comparison after a restore, releases.
  quantity bigint NOT NULL,
  -- Units of the facts that the processor already had when they were sealed. The quantity does not include them.
  already_reported bigint NOT NULL DEFAULT 0,
  identifier text COLLATE "C" NOT NULL CONSTRAINT meter_event_identifier UNIQUE,
  processor text NOT NULL CONSTRAINT meter_event_processor CHECK (processor IN ('stripe', 'ledger')),
  -- The processor's customer when the event was sealed, or the one that has it according to the sums. A later change of the
  -- account must not bill another customer.
  customer_id text COLLATE "C",
  -- Part of the idempotency key; increased after a 500 that is saved under the key.
  key_generation integer NOT NULL DEFAULT 0,
  state text NOT NULL CONSTRAINT meter_event_state CHECK (
    state IN (
      'sealed', 'sending', 'delivered', 'void', 'held', 'rejected', 'expired', 'blocked', 'superseded', 'waived'
    )
  ),
  attempts integer NOT NULL DEFAULT 0,
  first_attempt_at timestamptz,
  -- Until then an attempt may be in progress, even if its process has ended.
  leased_until timestamptz,
  -- When it is attempted again. NULL while it is leased.
  retry_at timestamptz,
  -- Whether an attempt may have been accepted although no response arrived, or the database has lost its record.
  outcome_unknown boolean NOT NULL DEFAULT false,
  -- Since then the processor may have another quantity under the identifier. The identifier is not sent again; the
  -- processor's sums decide once they show everything that was sent before this time.
  in_doubt_since timestamptz,
  last_error text,
  sealed_at timestamptz NOT NULL,
  settled_at timestamptz,
  -- The document at the processor with which an operator settled the usage by hand. It is never sent again.
  settlement_kind text CONSTRAINT meter_event_settlement_kind CHECK (settlement_kind IN ('invoice_item', 'credit_note')),
  settlement_reference text,
  CONSTRAINT meter_event_settlement CHECK ((settlement_kind IS NULL) = (settlement_reference IS NULL)),
  CONSTRAINT meter_event_blocked CHECK (state <> 'blocked' OR outcome_unknown),
  CONSTRAINT meter_event_sealing UNIQUE (account_id, mode, kind, second, sequence)
) WITH (fillfactor = 80);

-- At most one unfinished event per stream: one call in flight, first in, first out.
CREATE UNIQUE INDEX meter_event_unfinished
  ON meter_event (account_id, mode, kind) WHERE state IN ('sealed', 'sending');
-- For the sums of a processor's customer, which may have belonged to several accounts.
CREATE INDEX meter_event_customer ON meter_event (customer_id, kind, second) WHERE customer_id IS NOT NULL;
-- For the sums of all accounts in a span. Events are sealed nearly in the order of their seconds, so the blocks of a
-- span are few; a B-tree would cost each event another entry.
CREATE INDEX meter_event_second ON meter_event USING brin (second) WITH (autosummarize = on);
CREATE INDEX meter_event_failed ON meter_event (account_id, id) WHERE state IN ('rejected', 'expired', 'blocked');
-- After a restore, they are in doubt as well.
CREATE INDEX meter_event_waived ON meter_event (id) WHERE state = 'waived';
-- Those of usage that was settled by hand or waived need an operator.
CREATE INDEX meter_event_held ON meter_event (id) WHERE state = 'held';

-- Late deliveries, by their note: DELIVERED_LATE in modules/billing/meterEvents.rules.ts. Other delivered events have the note of
-- an earlier delay.
CREATE INDEX meter_event_late ON meter_event (id)
  WHERE state = 'delivered' AND last_error = 'delivered after its billing period ended; may not be on any invoice';

-- Units that the processor has and that no registration or refund explains, because a failover lost those. The usage is
-- recorded as delivered, and taken back: two usage facts of opposite signs.
CREATE TABLE usage_correction (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  kind text NOT NULL,
  -- Unix seconds, in the minute whose sum showed the units.
  second bigint NOT NULL,
  -- Negative if refunds were lost.
  quantity bigint NOT NULL CONSTRAINT usage_correction_quantity CHECK (quantity <> 0),
  processor text NOT NULL CONSTRAINT usage_correction_processor CHECK (processor IN ('stripe', 'ledger')),
  -- Whose units they are: the customer of the sum.
  customer_id text NOT NULL,
  -- The last time that the failover kept, as the operator gave it.
  restored_at timestamptz NOT NULL,
  reason text NOT NULL,
  corrected_by text NOT NULL,
  corrected_at timestamptz NOT NULL
);

CREATE INDEX usage_correction_account ON usage_correction (account_id);

-- The outbox of billing: written in the transaction of the registrations, refund or correction. The registrations of one
-- stream and second in one statement share a fact, so sealing does not rewrite a row for each of them. Only
-- meter_event_id and already_reported ever change.
CREATE TABLE usage_fact (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- No reference, like that of the registration.
  account_id uuid NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  -- The statement that recorded the registrations which the fact counts, or of which it takes units back. With the stream
  -- and the second it is the key that they share. A trigger prevents the deletion of registrations that have facts.
  usage_batch bigint,
  refund_id uuid REFERENCES refund,
  -- No reference, like account_id.
  correction_id bigint,
  CONSTRAINT usage_fact_cause CHECK (
    (usage_batch IS NULL) <> (correction_id IS NULL) AND (refund_id IS NULL OR correction_id IS NULL)
  ),
  -- At most 15 digits, which is Stripe's limit. A larger count makes several facts.
  quantity bigint NOT NULL
    CONSTRAINT usage_fact_quantity CHECK (quantity <> 0 AND abs(quantity) <= 999999999999999),
  -- How many registrations it counts; 1 of a refund or a correction. Bulk work reads from it how much clients record.
  record_count integer NOT NULL DEFAULT 1,
  -- Unix seconds of the registrations, also for a refund; of a correction, its own.
  second bigint NOT NULL,
  meter_event_id bigint REFERENCES meter_event,
  -- Units that the processor's sums have shown without the fact's current meter event; null if there are none.
  already_reported bigint
) WITH (
  -- Sealed facts leave the partial index. Without frequent vacuums, every search for unsealed facts would step over them.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05
);

CREATE INDEX usage_fact_unsealed ON usage_fact (account_id, mode, kind, second, id) WHERE meter_event_id IS NULL;
-- Apart, because a batch may have thousands of refunds, and each of them looks for the fact of its registration.
CREATE INDEX usage_fact_batch ON usage_fact (usage_batch) WHERE refund_id IS NULL;
-- With the first condition only, which every look-up by refund_id implies, the planner reads all of this index for the facts
-- of one refund, as long as its statistics know of no refunds.
CREATE INDEX usage_fact_refunded_batch ON usage_fact (usage_batch)
  WHERE refund_id IS NOT NULL AND usage_batch IS NOT NULL;
CREATE INDEX usage_fact_refund ON usage_fact (refund_id) WHERE refund_id IS NOT NULL;
CREATE INDEX usage_fact_event ON usage_fact (meter_event_id) WHERE meter_event_id IS NOT NULL;

CREATE FUNCTION reject_deletion_with_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- A scalar subquery is searched by the index for each registration, whatever the table's statistics are.
  IF EXISTS (
    SELECT
    FROM deleted
    WHERE (
      SELECT true
      FROM usage_fact
      WHERE usage_fact.usage_batch = deleted.usage_batch
        AND usage_fact.refund_id IS NULL
        AND usage_fact.account_id = deleted.account_id
        AND usage_fact.mode = deleted.mode
        AND usage_fact.kind = deleted.kind
        AND usage_fact.second = floor(extract(epoch FROM deleted.created_at))::bigint
      LIMIT 1
    )
  ) THEN
    RAISE EXCEPTION 'registrations that have usage facts cannot be deleted' USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER registration_without_usage
  AFTER DELETE ON registration
  REFERENCING OLD TABLE AS deleted
  FOR EACH STATEMENT EXECUTE FUNCTION reject_deletion_with_usage();

-- The usage that the built-in ledger has accepted.
CREATE TABLE ledger_usage (
  identifier text COLLATE "C" PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL,
  kind text COLLATE "C" NOT NULL,
  second bigint NOT NULL,
  quantity bigint NOT NULL,
  recorded_at timestamptz NOT NULL
);

CREATE INDEX ledger_usage_time ON ledger_usage (account_id, kind, second);

-- The billing periods that Stripe has returned for an account's usage of a kind. The latest is the current one.
CREATE TABLE billing_period (
  account_id uuid NOT NULL REFERENCES account,
  kind text COLLATE "C" NOT NULL,
  -- The subscription that the period was read from.
  subscription_id text COLLATE "C" NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL CONSTRAINT billing_period_span CHECK (starts_at < ends_at),
  read_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, kind, subscription_id, starts_at)
);

-- What Stripe last returned of an account's subscription. It counts only while the account has that subscription.
CREATE TABLE stripe_subscription (
  account_id uuid PRIMARY KEY REFERENCES account,
  subscription_id text NOT NULL,
  -- Stripe's own word, or 'missing' if Stripe does not know the subscription.
  status text NOT NULL,
  -- The kinds that it has a price for.
  metered_kinds text[] NOT NULL,
  -- Null if the prices of donations are not configured.
  has_donation_items boolean,
  read_at timestamptz NOT NULL
);

-- What webhooks of the processor have announced. The endpoint only stores them; a worker processes them. Only ids and
-- times are stored: what happened is read from the processor, which also settles the order of events.
CREATE TABLE processor_event (
  id text COLLATE "C" PRIMARY KEY,
  type text NOT NULL,
  -- What it is about, such as a subscription or a customer.
  object_id text,
  created_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  -- Set before an attempt, so that a process that dies delays the next one only.
  next_attempt_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'pending'
    CONSTRAINT processor_event_state CHECK (state IN ('pending', 'processed', 'failed', 'discarded')),
  -- Why the last attempt failed.
  last_error text,
  settled_at timestamptz
);

CREATE INDEX processor_event_pending ON processor_event (next_attempt_at) WHERE state = 'pending';
CREATE INDEX processor_event_failed ON processor_event (id) WHERE state = 'failed';
-- For deleting old ones.
CREATE INDEX processor_event_processed ON processor_event (settled_at) WHERE state IN ('processed', 'discarded');

-- Usage that the processor refused after it had accepted it, by error code. Samples name only some of the refused events.
CREATE TABLE usage_rejection (
  processor_event_id text COLLATE "C" NOT NULL REFERENCES processor_event,
  code text COLLATE "C" NOT NULL,
  -- How many events were refused, and how many of our meter events the samples name.
  errors bigint NOT NULL,
  named bigint NOT NULL,
  -- The named meter events to which the report could not be applied yet, because they were still being sent.
  left_event_ids bigint[] NOT NULL,
  -- When the processor received the events. It says nothing about the seconds of their usage.
  window_start timestamptz NOT NULL,
  window_end timestamptz NOT NULL,
  PRIMARY KEY (processor_event_id, code)
);

CREATE INDEX usage_rejection_window ON usage_rejection (window_end);

-- A comparison of the processor's sums with what was delivered.
CREATE TABLE reconciliation (
  id uuid PRIMARY KEY,
  -- Whether it covers all accounts and the default span. Only these count for the metrics.
  is_complete boolean NOT NULL,
  -- The compared span, half-open, in unix seconds.
  start_second bigint NOT NULL,
  end_second bigint NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at timestamptz,
  -- The compared streams. The results are null before the first poll has ended.
  streams integer,
  drifting integer,
  -- Streams whose usage the processor did not return.
  unreadable integer,
  -- The unacknowledged differences of the drifting streams, without signs.
  drift_units bigint,
  -- Why the reconciliation failed; null if it succeeded.
  error text,
  CONSTRAINT reconciliation_span CHECK (start_second < end_second)
);

CREATE INDEX reconciliation_started ON reconciliation (started_at) WHERE is_complete;

-- A stream that drifts or could not be read. A customer of Stripe may have been billed for several accounts.
CREATE TABLE reconciliation_stream (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  reconciliation_id uuid NOT NULL REFERENCES reconciliation,
  processor text NOT NULL,
  mode text NOT NULL,
  kind text NOT NULL,
  customer_id text,
  account_ids uuid[] NOT NULL CONSTRAINT reconciliation_stream_accounts CHECK (cardinality(account_ids) > 0),
  account_name text NOT NULL,
  delivered bigint NOT NULL,
  pending bigint NOT NULL,
  failed bigint NOT NULL,
  processor_quantity bigint,
  acknowledged bigint NOT NULL,
  error text,
  error_is_temporary boolean NOT NULL
);

CREATE INDEX reconciliation_stream_run ON reconciliation_stream (reconciliation_id);

-- A minute in which a stream drifts.
CREATE TABLE reconciliation_difference (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  reconciliation_stream_id bigint NOT NULL REFERENCES reconciliation_stream,
  -- The first unix second of the minute.
  minute bigint NOT NULL,
  delivered bigint NOT NULL,
  processor_quantity bigint NOT NULL,
  may_lag boolean NOT NULL
);

CREATE INDEX reconciliation_difference_stream ON reconciliation_difference (reconciliation_stream_id);

-- A difference of one minute that an operator has explained. It is reported again only if it changes.
CREATE TABLE acknowledged_drift (
  processor text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  -- The processor's customer; the account's id where the processor has no customer.
  customer text COLLATE "C" NOT NULL,
  minute bigint NOT NULL,
  -- The processor's units minus the delivered ones.
  units bigint NOT NULL,
  -- The meter events that counted as delivered. Usage that the units replace is among them.
  meter_event_ids bigint[] NOT NULL,
  reason text NOT NULL,
  acknowledged_by text NOT NULL,
  acknowledged_at timestamptz NOT NULL,
  PRIMARY KEY (processor, mode, kind, customer, minute)
);


-- Which request made a registration or a refund, while tracing is on, so that its trace goes on when the usage is reported. Rows are
-- deleted after a day. Losing them in a crash only ends traces, so they need not be in the log of the database.
CREATE UNLOGGED TABLE trace_context (
  record_id uuid PRIMARY KEY,
  -- As the header of W3C Trace Context.
  traceparent text NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX trace_context_recorded ON trace_context (recorded_at);
