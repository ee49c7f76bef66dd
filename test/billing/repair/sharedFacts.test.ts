import { z } from "zod";
import { readJson } from "../../cli/runImpact.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setCustomer, setUpUsage } from "./usageSetup.ts";

const test = testWithDatabase();

const shownUsage = z.looseObject({
  billing: z.string(),
  facts: z.array(z.looseObject({ quantity: z.int() })),
});

const foundRecords = z.looseObject({
  records: z.array(z.looseObject({ record: z.string(), id: z.string() })),
});

test("registrations that share a usage fact fail and are retried together, and are shown and refunded one by one", async (t) => {
  const scene = await setUpUsage(t);
  const ids = await Promise.all([1, 2, 4].map((count) => scene.register(count)));
  const [one = "", two = "", four = ""] = ids;
  t.like(await readAccountSums(t.context.db, scene.id), {
    registrations: 3,
    facts: 1,
    usage: 7n,
  });
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  await scene.refund(two, 2);
  await scene.drain();
  t.deepEqual(await scene.failedEvents(), [failed], "the refund is held");

  const show = async (id: string) => {
    const shown = shownUsage.parse(readJson(await scene.impact("usage", "show", id, "--json")));
    return [shown.billing, shown.facts.map(({ quantity }) => quantity)];
  };
  t.deepEqual(await show(one), ["failed", [1]]);
  t.deepEqual(await show(two), ["failed", [2, -2]]);
  const { records } = foundRecords.parse(readJson(await scene.impact("find", failed, "--json")));
  t.deepEqual(
    records
      .filter(({ record }) => record === "registration")
      .map(({ id }) => id)
      .toSorted(),
    ids.toSorted(),
  );

  await setCustomer(scene);
  t.is((await scene.impact("usage", "retry", one)).exitCode, 0);
  await scene.drain();
  t.is(scene.billed(), 5);
  await scene.refund(four, 3);
  await scene.drain();
  t.is(scene.billed(), 2);
  t.deepEqual(await show(one), ["reported", [1]]);
  t.deepEqual(await show(four), ["reported", [4, -3]]);
});

test("the units of registrations that share several usage facts are shown once", async (t) => {
  const scene = await setUpUsage(t);
  // A fact has at most 15 digits.
  const counts = [1, Number.MAX_SAFE_INTEGER - 10];
  const ids = await Promise.all(counts.map((count) => scene.register(count)));
  t.like(await readAccountSums(t.context.db, scene.id), { registrations: 2, facts: 10 });

  for (const [index, count] of counts.entries()) {
    const run = await scene.impact("usage", "show", ids[index] ?? "", "--json");
    const shown = shownUsage.parse(readJson(run));
    const quantities = shown.facts.map(({ quantity }) => quantity);
    t.is(quantities.length, 10);
    t.is(
      quantities.reduce((sum, quantity) => sum + quantity, 0),
      count,
    );
  }
});
