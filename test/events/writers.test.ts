import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { recoverWebhookEvents } from "../../modules/events/manageDeliveries.ts";
import { refunded } from "./readEvents.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { createRandom } from "../support/random.ts";
import { setUpWebhooks, verify } from "./webhookScene.ts";

const test = testWithDatabase();

const WRITERS = 64;
const WRITES = 8;
const CONNECTIONS = 24;
const QUARTER = (WRITERS * WRITES) / 4;

test("beside 64 writers, an endpoint that is disabled meanwhile and recovered receives every event once", async (t) => {
  const { databaseUrl } = t.context;
  const { deps, accountId, endpoint, receiver, secret, deliver, clock, setStatus } =
    await setUpWebhooks(t);
  const owner = { accountId, mode: "live" } as const;
  const pool = await openTestPool(t, databaseUrl, CONNECTIONS);
  const since = clock.now();
  const committed: string[] = [];
  const random = createRandom(1);
  const wasDisabled = Promise.withResolvers<void>();
  let finished = false;
  const isFinished = (): boolean => finished;

  const write = async (writer: number): Promise<void> => {
    for (let index = 0; index < WRITES; index += 1) {
      if (committed.length > QUARTER) {
        await wasDisabled.promise;
      }
      const name = `${writer}-${index}`;
      await pool.transaction(async (transaction) => {
        await recordEvent(transaction, owner, systemClock.now(), refunded(name));
        await transaction.query(
          sql.typeAlias("void")`SELECT FROM pg_sleep(${random.next() * 0.03})`,
        );
      });
      committed.push(name);
    }
  };
  const writeAll = async (): Promise<void> => {
    await Promise.all(Array.from({ length: WRITERS }, (_, index) => write(index)));
    finished = true;
  };

  /** Delivers what comes, and misses a part of it because the endpoint is disabled. */
  const deliverAll = async (): Promise<void> => {
    while (!isFinished()) {
      clock.set(new Date().toISOString());
      await deliver();
      if (committed.length > QUARTER) {
        await setStatus("disabled");
        wasDisabled.resolve();
        // At least one transaction has begun since then.
        const enough = committed.length + CONNECTIONS;
        await eventually(() => isFinished() || committed.length > enough);
        await setStatus("enabled");
      }
    }
  };

  await Promise.all([writeAll(), deliverAll()]);
  clock.set(new Date().toISOString());
  const { recovered, hasMore } = await recoverWebhookEvents(deps, endpoint, since);
  // One call begins no attempt after twenty seconds.
  while ((await deliver()) === 0) {}

  const expected = committed.toSorted();
  t.is(expected.length, WRITERS * WRITES);
  t.true(recovered > 0, "some were missed");
  t.false(hasMore);
  const names = receiver.received.map((request) =>
    String(verify(request, secret).data["registration_id"]),
  );
  t.deepEqual(names.toSorted(), expected);
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 0 });
});
