import { randomBytes } from "node:crypto";
import test from "ava";
import { Webhook } from "standardwebhooks";
import {
  ImpactError,
  verifyWebhook,
  WebhookVerificationError,
} from "../../clients/typescript/src/index.ts";

const CONTENT = { type: "registration.refunded", data: { reason: "ü" } };
const PAYLOAD = { ...CONTENT, timestamp: "2026-06-01T12:00:00.000Z" };
const BODY = JSON.stringify(PAYLOAD);

const isRefusal = { instanceOf: WebhookVerificationError };

const newSecret = (): string => `whsec_${randomBytes(32).toString("base64")}`;

/** Signs with the standard's own library. */
const sign = (
  secret: string,
  { id = "msg_1", at = new Date(), body = BODY } = {},
): Readonly<Record<string, string>> => ({
  "webhook-id": id,
  "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
  "webhook-signature": new Webhook(secret).sign(id, at, body),
});

test("what the standard's library signs is verified, as text and as bytes, with Headers and Node's headers", async (t) => {
  const secret = newSecret();
  const headers = sign(secret);

  const webhook = await verifyWebhook({ secret, headers, body: BODY });

  t.deepEqual(webhook, { ...PAYLOAD, id: "msg_1" });
  const inBytes = { headers: new Headers(headers), body: Buffer.from(BODY) };
  t.deepEqual(await verifyWebhook({ secret, ...inBytes }), webhook);
  const capitalized = Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]);
  const written = { headers: Object.fromEntries(capitalized), body: BODY };
  t.deepEqual(await verifyWebhook({ secret, ...written }), webhook);
});

test("during a rotation, either secret verifies either signature", async (t) => {
  const [current, previous] = [newSecret(), newSecret()];
  const byBoth = sign(current);
  const signatures = [byBoth, sign(previous)].map((signed) => signed["webhook-signature"]);
  const headers = { ...byBoth, "webhook-signature": signatures.join(" ") };

  t.is((await verifyWebhook({ secret: current, headers, body: BODY })).id, "msg_1");
  t.is((await verifyWebhook({ secret: previous, headers, body: BODY })).id, "msg_1");
  const both = { secret: [current, previous], headers: sign(previous), body: BODY };
  t.is((await verifyWebhook(both)).id, "msg_1");
});

test("a webhook is refused whose body, id, time or signature is not what was signed", async (t) => {
  const secret = newSecret();
  const headers = sign(secret);
  const signature = headers["webhook-signature"] ?? "";
  const otherSeconds = String(Number(headers["webhook-timestamp"]) - 1);
  const cases = [
    { headers, body: `${BODY} ` },
    { headers: { ...headers, "webhook-id": "msg_2" }, body: BODY },
    { headers: { ...headers, "webhook-timestamp": otherSeconds }, body: BODY },
    { headers: sign(newSecret()), body: BODY },
    { headers: { ...headers, "webhook-signature": signature.replace("v1,", "v2,") }, body: BODY },
    { headers: { ...headers, "webhook-signature": signature.slice(0, -8) }, body: BODY },
    { headers: { ...headers, "webhook-signature": "v1,%%%" }, body: BODY },
    { headers: { ...headers, "webhook-signature": "v1," }, body: BODY },
  ];
  for (const { headers: given, body } of cases) {
    const refusal = { ...isRefusal, message: "no signature matches the secret" };
    await t.throwsAsync(verifyWebhook({ secret, headers: given, body }), refusal);
  }
});

test("a webhook is refused without one of its headers", async (t) => {
  const secret = newSecret();
  for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
    const { [name]: _left, ...headers } = sign(secret);
    const refusal = { ...isRefusal, message: `the header ${name} is missing` };
    await t.throwsAsync(verifyWebhook({ secret, headers, body: BODY }), refusal);
  }
});

test("a webhook is refused if it is older than five minutes, or further in the future", async (t) => {
  const secret = newSecret();
  const verify = (headers: Readonly<Record<string, string>>): Promise<unknown> =>
    verifyWebhook({ secret, headers, body: BODY });
  /** Signs with a time so many seconds ago. The test may take some of them. */
  const signAt = (ageSeconds: number) =>
    sign(secret, { at: new Date(Date.now() - ageSeconds * 1000) });

  await verify(signAt(240));
  await verify(signAt(-300));
  for (const headers of [
    signAt(301),
    signAt(-360),
    { ...sign(secret), "webhook-timestamp": "NaN" },
  ]) {
    const message = /^webhook-timestamp: must be within five minutes/u;
    await t.throwsAsync(verify(headers), { ...isRefusal, message });
  }
});

test("a malformed secret is a fault of the receiver, and its error does not repeat it", async (t) => {
  for (const secret of ["", "whsec_", "whsec_§secret§", randomBytes(32).toString("base64")]) {
    const verifying = verifyWebhook({ secret, headers: sign(newSecret()), body: BODY });
    const error = await t.throwsAsync(verifying, { instanceOf: ImpactError });
    t.false(error instanceof WebhookVerificationError);
    t.is(error.message, "secret: must be whsec_ followed by Base64");
  }
});
