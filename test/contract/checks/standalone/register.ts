import { atOnce, checksOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expectEqual, expectError, expectStatus, expectThat } from "../../expectations.ts";
import { KIND_NAMES } from "../../../api/contract.ts";
import { expectListed, list, readRegistered, refund, register } from "./registrations.ts";
import type { Kind } from "./registrations.ts";

const LONG = `  ${"ü🌳 a".repeat(220)}  `;

export const registerChecks = (kind: Kind): readonly Check[] => {
  const { path } = KIND_NAMES[kind];
  const { contract, decision } = checksOf(`POST ${path}`);
  return [
    contract("returns the record with the contract's fields", async (service) => {
      const attribution = unique("shape");
      const metadata = { campaign: "spring", nested: { list: [1, 2.5, null, true], "": "" } };
      const { record } = await register(service, kind, { count: 3, attribution, metadata });
      expectEqual("count", record.count, 3);
      expectEqual("attribution", record.attribution, attribution);
      expectEqual("metadata", record.metadata, metadata);
      expectEqual("refunded", record.refunded, false);
      const ageMs = Math.abs(Date.now() - Date.parse(record.created_at));
      expectThat(ageMs < 300_000, "created_at must be the present time", record.created_at);
    }),
    contract("without optional fields, idempotency_key is the empty string", async (service) => {
      const { record } = await register(service, kind, { count: 1 });
      expectEqual("idempotency_key", record.idempotency_key, "");
      expectEqual("metadata", record.metadata, {});
      expectEqual("attribution", record.attribution, "");
    }),
    contract("both totals rise by the count", async (service) => {
      const before = await register(service, kind, { count: 1 });
      const after = await register(service, kind, { count: 17 });
      expectEqual("all-time total", after.total, before.total + 17);
      if (before.record.created_at.slice(0, 7) === after.record.created_at.slice(0, 7)) {
        expectEqual("month total", after.month, before.month + 17);
      }
      expectThat(after.total >= after.month, "the all-time total includes the month", after);
    }),
    contract("each request without a key creates a record", async (service) => {
      const first = await register(service, kind, { count: 1, attribution: "same" });
      const second = await register(service, kind, { count: 1, attribution: "same" });
      expectThat(first.record.id !== second.record.id, "ids must differ", second.record.id);
    }),
    contract(
      "a repeated idempotency_key returns the first record and counts nothing",
      async (service) => {
        const idempotencyKey = unique("key");
        const body = { count: 2, attribution: unique("replay"), idempotency_key: idempotencyKey };
        const first = await register(service, kind, body);
        expectEqual("idempotency_key", first.record.idempotency_key, idempotencyKey);
        const repeated = await register(service, kind, body);
        expectEqual("record", repeated.record, first.record);
        expectEqual("total", repeated.total, first.total);
        expectEqual("month", repeated.month, first.month);
        await expectListed(service, kind, { attribution_key: body.attribution }, [first.record.id]);
      },
    ),
    contract(
      "a repeated idempotency_key with another body returns the first record",
      async (service) => {
        const idempotencyKey = unique("key");
        const first = await register(service, kind, { count: 2, idempotency_key: idempotencyKey });
        const other = { count: 99, attribution: "other", metadata: { a: 1 } };
        const repeated = await register(service, kind, {
          ...other,
          idempotency_key: idempotencyKey,
        });
        expectEqual("record", repeated.record, first.record);
        expectEqual("total", repeated.total, first.total);
      },
    ),
    contract(
      "20 overlapping requests with one idempotency_key create one record",
      async (service) => {
        const body = { count: 5, attribution: unique("race"), idempotency_key: unique("key") };
        const before = await list(service, kind, { attribution_key: body.attribution });
        const ids = await atOnce(20, async () => (await register(service, kind, body)).record.id);
        expectEqual("ids", new Set(ids).size, 1);
        const after = await list(service, kind, { attribution_key: body.attribution });
        expectEqual("records", after.records.length, 1);
        expectEqual("total", after.total, before.total + 5);
      },
    ),
    contract("another organization's idempotency_key is unrelated", async (service) => {
      const idempotencyKey = unique("key");
      const own = await register(service, kind, { count: 1, idempotency_key: idempotencyKey });
      const other = await register(
        service,
        kind,
        { count: 2, idempotency_key: idempotencyKey },
        "otherTest",
      );
      expectThat(own.record.id !== other.record.id, "ids must differ", other.record.id);
      expectEqual("count", other.record.count, 2);
    }),
    contract("the production key records too, apart from test records", async (service) => {
      const before = await list(service, kind);
      const { record } = await register(service, kind, { count: 1 }, "prod");
      const after = await list(service, kind, { id: record.id });
      expectEqual("test total", after.total, before.total);
      expectEqual("live record with the test key", after.records, []);
      expectStatus(await refund(service, kind, { id: record.id }, "prod"), 200);
    }),
    contract("a count that is not an integer of at least 1 is a 400", async (service) => {
      const before = await list(service, kind);
      const wrong = [0, -1, 1.5, "3", "", "three", true, null, [], [1], {}, -(2 ** 53 - 1), 1e300];
      for (const count of wrong) {
        expectError(await service.organization().post(path, { count }), 400, /count/u);
      }
      expectError(await service.organization().post(path, {}), 400, /count/u);
      expectEqual("total", (await list(service, kind)).total, before.total);
    }),
    contract("wrong types of the optional fields are a 400", async (service) => {
      for (const wrong of [true, {}, []]) {
        expectError(await service.organization().post(path, { count: 1, attribution: wrong }), 400);
        expectError(
          await service.organization().post(path, { count: 1, idempotency_key: wrong }),
          400,
        );
      }
      for (const metadata of ["text", 7, true, [], [{}], '{"a":1}']) {
        expectError(
          await service.organization().post(path, { count: 1, metadata }),
          400,
          /metadata/u,
        );
      }
    }),
    contract("a body that is not a JSON object is a 400", async (service) => {
      const bodies = [
        "",
        "{",
        "nonsense",
        "[]",
        "null",
        "1",
        '"text"',
        '{"count":1',
        "{'count':1}",
        '{"count":01}',
      ];
      for (const body of bodies) {
        expectError(await service.organization().post(path, body), 400);
      }
    }),
    contract("no body is a 400", async (service) => {
      expectError(await service.organization().post(path), 400);
    }),
    decision("another content type is a 400", async (service) => {
      for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
        const answer = await service
          .organization()
          .post(path, '{"count":1}', { "Content-Type": type });
        expectError(answer, 400);
      }
    }),
    decision("a content type with a charset is accepted", async (service) => {
      for (const type of [
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "APPLICATION/JSON",
      ]) {
        const answer = await service
          .organization()
          .post(path, '{"count":1}', { "Content-Type": type });
        expectStatus(answer, 200);
      }
    }),
    decision("invalid UTF-8 is a 400", async (service) => {
      const body = Buffer.concat([
        Buffer.from('{"count":1,"attribution":"'),
        Buffer.from([0xff]),
        Buffer.from('"}'),
      ]);
      expectError(await service.organization().post(path, body), 400);
    }),
    contract("texts of every script come back as they were sent", async (service) => {
      for (const attribution of [
        "Zoë – 日本語 🌳",
        " padded ",
        "a\nb\tc",
        `"quoted" \\ 'single'`,
        "<b>&amp;",
        "%20+#?/",
      ]) {
        const metadata = { [attribution]: attribution };
        const { record } = await register(service, kind, { count: 1, attribution, metadata });
        expectEqual("attribution", record.attribution, attribution);
        expectEqual("metadata", record.metadata, metadata);
      }
    }),
    contract("300 requests at once are all recorded", async (service) => {
      const attribution = unique("burst");
      const before = await list(service, kind, { attribution_key: attribution });
      await atOnce(300, () => register(service, kind, { count: 2, attribution }));
      const after = await list(service, kind, { attribution_key: attribution });
      expectEqual("records", after.records.length, 300);
      expectEqual("distinct ids", new Set(after.records.map(({ id }) => id)).size, 300);
      expectEqual("total", after.total, before.total + 600);
    }),
    contract("a thousand quick requests are all recorded", async (service) => {
      await atOnce(20, async () => {
        for (let index = 0; index < 50; index += 1) {
          await register(service, kind, { count: 1 });
        }
      });
    }),
    contract("a count of 3,000,000,000 is recorded and totalled exactly", async (service) => {
      const before = await list(service, kind);
      const { record, total } = await register(service, kind, { count: 3_000_000_000 });
      try {
        expectEqual("count", record.count, 3_000_000_000);
        expectEqual("total", total, before.total + 3_000_000_000);
      } finally {
        expectStatus(await refund(service, kind, { id: record.id }), 200);
      }
    }),
    decision("totals reach 2^53-1; a registration beyond it is a 400", async (service) => {
      const before = await list(service, kind);
      const count = Number.MAX_SAFE_INTEGER - before.total;
      const { record, total } = await register(service, kind, { count });
      try {
        expectEqual("count", record.count, count);
        expectEqual("total", total, Number.MAX_SAFE_INTEGER);
        expectError(await service.organization().post(path, { count: 1 }), 400);
      } finally {
        expectStatus(await refund(service, kind, { id: record.id }), 200);
      }
      expectEqual("total", (await list(service, kind)).total, before.total);
    }),
    decision("a count above 2^53-1 is a 400", async (service) => {
      for (const count of ["9007199254740992", "9007199254740993", "1e17", "1e400"]) {
        expectError(await service.organization().post(path, `{"count":${count}}`), 400, /count/u);
      }
    }),
    decision("unknown fields and query parameters are ignored", async (service) => {
      const { record } = await register(service, kind, {
        count: 1,
        foo: "bar",
        fractional_count: 5,
        id: "x",
      });
      expectThat(record.id !== "x", "a given id is ignored", record.id);
      const answer = await service.organization().post(`${path}?count=9&foo=1&_=1`, { count: 2 });
      expectEqual("count", readRegistered(kind, answer).record.count, 2);
    }),
    decision("a misspelt idempotency_key is a 400 that names the right one", async (service) => {
      for (const name of [
        "idempotencyKey",
        "idempotency-key",
        "IdempotencyKey",
        "Idempotency-Key",
        "idempotencykey",
        "IDEMPOTENCY_KEY",
      ]) {
        const answer = await service.organization().post(path, { count: 1, [name]: unique("key") });
        expectError(answer, 400, /\bidempotency_key\b/u);
      }
    }),
    decision("null in an optional field is the same as none", async (service) => {
      const body = { count: 1, attribution: null, metadata: null, idempotency_key: null };
      const { record } = await register(service, kind, body);
      expectEqual("idempotency_key", record.idempotency_key, "");
      expectEqual("attribution", record.attribution, "");
      expectEqual("metadata", record.metadata, {});
    }),
    decision("an empty idempotency_key is none", async (service) => {
      const first = await register(service, kind, { count: 1, idempotency_key: "" });
      const second = await register(service, kind, { count: 1, idempotency_key: "" });
      expectThat(first.record.id !== second.record.id, "ids must differ", second.record.id);
    }),
    decision("attributions and keys of 1,000 characters are kept as sent", async (service) => {
      const attribution = unique(LONG.slice(0, 1000)) + "  ";
      const idempotencyKey = unique(LONG.slice(0, 1000));
      const body = { count: 1, attribution, idempotency_key: idempotencyKey };
      const first = await register(service, kind, body);
      expectEqual("attribution", first.record.attribution, attribution);
      expectEqual("idempotency_key", first.record.idempotency_key, idempotencyKey);
      expectEqual("replayed id", (await register(service, kind, body)).record.id, first.record.id);
      await expectListed(service, kind, { attribution_key: attribution }, [first.record.id]);
    }),
    decision("metadata of 64 KiB are kept as sent", async (service) => {
      const metadata = { text: "x".repeat(65_000) };
      const { record } = await register(service, kind, { count: 1, metadata });
      expectEqual("metadata", record.metadata, metadata);
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
    decision(
      "the header Idempotency-Key means the same, with or without quotes",
      async (service) => {
        const key = unique("key");
        const first = await register(service, kind, { count: 1, idempotency_key: key });
        for (const header of [key, `"${key}"`]) {
          const answer = await service
            .organization()
            .post(path, { count: 1 }, { "Idempotency-Key": header });
          expectEqual(
            `id with the header ${header}`,
            readRegistered(kind, answer).record.id,
            first.record.id,
          );
        }
        const both = { count: 1, idempotency_key: key };
        const differing = await service
          .organization()
          .post(path, both, { "Idempotency-Key": unique("key") });
        expectError(differing, 400);
      },
    ),
  ];
};
