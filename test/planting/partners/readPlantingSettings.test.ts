import test from "ava";
import { parseConfig } from "../../../config/config.ts";
import { plantingOrderIntervalMs } from "../../../program/readPlantingSettings.ts";

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * MINUTE_MS;

const ordersEvery = test.macro({
  exec: (t, env: Readonly<Record<string, string>>, intervalMs: number) => {
    t.is(plantingOrderIntervalMs(parseConfig(env)), intervalMs);
  },
  title: (title) => `trees are ordered ${title ?? ""}`,
});

test("once a minute where planting is simulated", ordersEvery, {}, MINUTE_MS);
test("once a day by hand", ordersEvery, { PLANTING_PARTNER: "manual" }, DAY_MS);
test("once a day from TreeMapper", ordersEvery, { PLANTING_PARTNER: "treemapper" }, DAY_MS);
test(
  "as often as the setting says, whoever plants",
  ordersEvery,
  { PLANTING_PARTNER: "manual", PLANTING_ORDER_INTERVAL_SECONDS: "90" },
  90_000,
);
