import { checksOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import {
  expectEqual,
  expectError,
  expectFields,
  expectStatus,
  expectThat,
} from "../../expectations.ts";
import { KIND_NAMES } from "../../../api/contract.ts";
import { list, refund, register } from "./registrations.ts";
import type { Kind } from "./registrations.ts";

/** What this project decided about registrations, because the contract leaves it open. */
export const registerDecisionChecks = (kind: Kind): readonly Check[] => {
  const { path } = KIND_NAMES[kind];
  const { decision } = checksOf(`POST ${path}`);
  return [
    decision("totals reach 2^53-1; a registration beyond it is a 400", async (service) => {
      const before = await list(service, kind);
      const count = Number.MAX_SAFE_INTEGER - before.total;
      const { record, total } = await register(service, kind, { count });
      try {
        expectEqual("count", record.count, count);
        expectEqual("total", total, Number.MAX_SAFE_INTEGER);
        expectError(await service.organization().post(path, { count: 1 }), 400, /^count: /u);
      } finally {
        expectStatus(await refund(service, kind, { id: record.id }), 200);
      }
      expectEqual("total", (await list(service, kind)).total, before.total);
    }),
    decision("null in an optional field is the same as none", async (service) => {
      const body = { count: 1, attribution: null, metadata: null, idempotency_key: null };
      const { record } = await register(service, kind, body);
      expectFields(record, { idempotency_key: "", attribution: "", metadata: {} });
    }),
    decision("an empty idempotency_key is none", async (service) => {
      const first = await register(service, kind, { count: 1, idempotency_key: "" });
      const second = await register(service, kind, { count: 1, idempotency_key: "" });
      expectThat(first.record.id !== second.record.id, "ids must differ", second.record.id);
    }),
    decision("keys are compared byte by byte", async (service) => {
      const key = unique("Key");
      const keys = [
        key,
        key.toLowerCase(),
        `${key} `,
        ` ${key}`,
        key.replaceAll("-", ""),
        `${key}e\u0301`,
        `${key}\u00e9`,
      ];
      const ids = new Set<string>();
      for (const idempotencyKey of keys) {
        ids.add(
          (await register(service, kind, { count: 1, idempotency_key: idempotencyKey })).record.id,
        );
      }
      expectEqual("distinct records", ids.size, keys.length);
    }),
    decision("a key of the other kind or mode is unrelated", async (service) => {
      const body = { count: 1, idempotency_key: unique("key") };
      const other = kind === "tree" ? "bottle" : "tree";
      const first = await register(service, kind, body);
      const second = await register(service, other, body);
      const live = await register(service, kind, body, "prod");
      expectEqual("records", new Set([first, second, live].map(({ record }) => record.id)).size, 3);
      expectStatus(await refund(service, kind, { id: live.record.id }, "prod"), 200);
    }),
    decision("a replay after a refund returns the record as it is now", async (service) => {
      const body = { count: 2, idempotency_key: unique("key") };
      const { record } = await register(service, kind, body);
      expectStatus(await refund(service, kind, { id: record.id }), 200);
      expectFields((await register(service, kind, body)).record, { id: record.id, refunded: true });
    }),
    decision(
      "a replay carries Idempotent-Replayed: true, the first response does not",
      async (service) => {
        const body = { count: 1, idempotency_key: unique("key") };
        const first = await service.organization().post(path, body);
        expectEqual("header of the first response", first.headers.get("idempotent-replayed"), null);
        const second = await service.organization().post(path, body);
        expectEqual("header of the replay", second.headers.get("idempotent-replayed"), "true");
      },
    ),
  ];
};
