import test from "ava";
import { parseConfig } from "../../../config/config.ts";
import { plantingOrderIntervalMs } from "../../../program/settings/readPlantingSettings.ts";

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * MINUTE_MS;

const ordersEvery = test.macro({
  exec: (t, env: Readonly<Record<string, string>>, intervalMs: number) => {
    t.is(plantingOrderIntervalMs(parseConfig(env)), intervalMs);
  },
  title: (title) => `planting orders are created ${title ?? ""}`,
});

test("every minute with the simulated partner", ordersEvery, {}, MINUTE_MS);
test("every day with the manual partner", ordersEvery, { PLANTING_PARTNER: "manual" }, DAY_MS);
test("every day with TreeMapper", ordersEvery, { PLANTING_PARTNER: "treemapper" }, DAY_MS);
test(
  "at the configured interval with any partner",
  ordersEvery,
  { PLANTING_PARTNER: "manual", PLANTING_ORDER_INTERVAL_SECONDS: "90" },
  90_000,
);
