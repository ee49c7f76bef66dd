import test from "ava";
import { validate, version } from "uuid";
import { newId } from "../../services/newId.ts";

const timeOf = (id: string | undefined): number =>
  Number.parseInt((id ?? "").replaceAll("-", "").slice(0, 12), 16);

test("ids are different UUIDs of version 7 that ascend and begin with the time", (t) => {
  const startedAtMs = Date.now();
  const ids = Array.from({ length: 20_000 }, newId);
  t.true(ids.every((id) => validate(id) && version(id) === 7));
  t.is(new Set(ids).size, ids.length);
  t.deepEqual(ids.toSorted(), ids);
  t.true(timeOf(ids[0]) >= startedAtMs);
  t.true(timeOf(ids.at(-1)) <= Date.now());
});
