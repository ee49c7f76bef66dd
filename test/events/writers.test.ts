import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { recoverWebhookEvents } from "../../modules/events/manageDeliveries.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
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
const DEADLINE_MS = 150_000;

const page = z.object({
  events: z.array(
    z.object({ id: z.string(), data: z.looseObject({ registration_id: z.string() }) }),
  ),
  has_more: z.boolean(),
  held_back_since: z.string().nullable(),
});

test("beside 64 writers, a reader of GET /events skips and repeats nothing, and neither does an endpoint that is disabled meanwhile and recovered", async (t) => {
  const { db, databaseUrl } = t.context;
  const { deps, accountId, endpoint, receiver, secret, deliver, clock, setStatus } =
    await setUpWebhooks(t);
  const { call } = await startStandaloneApi(t, { db });
  const account = { id: accountId, type: "organization" } as const;
  const { key } = await issueKey(deps, account, "live");
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

  const follow = async (): Promise<readonly { readonly id: string; readonly name: string }[]> => {
    const read: { id: string; name: string }[] = [];
    const deadline = Date.now() + DEADLINE_MS;
    while (!isFinished() || read.length < committed.length) {
      if (Date.now() > deadline) {
        throw new Error(`The feed has only ${read.length} events.`);
      }
      const last = read.at(-1)?.id;
      const after = last === undefined ? "" : `&starting_after=${last}`;
      const { body } = await call("GET", `/events?limit=50${after}`, { key });
      const { events } = page.parse(body);
      read.push(...events.map(({ id, data }) => ({ id, name: data.registration_id })));
      if (events.length === 0) {
        await delay(2);
      }
    }
    return read;
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

  const following = follow();
  await Promise.all([writeAll(), deliverAll()]);
  const read = await following;
  clock.set(new Date().toISOString());
  const { recovered, hasMore } = await recoverWebhookEvents(deps, endpoint, since);
  // One call begins no attempt after twenty seconds.
  while ((await deliver()) === 0) {}

  const expected = committed.toSorted();
  t.is(expected.length, WRITERS * WRITES);
  t.deepEqual(read.map(({ name }) => name).toSorted(), expected);
  t.deepEqual(
    read.map(({ id }) => id),
    read.map(({ id }) => id).toSorted(),
    "in the order in which the events stay",
  );
  t.true(recovered > 0, "some were missed");
  t.false(hasMore);
  const names = receiver.received.map((request) =>
    String(verify(request, secret).data["registration_id"]),
  );
  t.deepEqual(names.toSorted(), expected);
  const ids = receiver.received.map(({ headers }) => String(headers["webhook-id"]));
  t.deepEqual(ids.toSorted(), read.map(({ id }) => id).toSorted(), "the ids are the feed's");
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 0 });
});
