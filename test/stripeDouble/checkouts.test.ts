import test from "ava";
import { stageDouble } from "./doubleScene.ts";

const SESSION = {
  mode: "payment",
  success_url: "https://shop.example/",
  "line_items[0][quantity]": "1",
  "line_items[0][price_data][currency]": "usd",
  "line_items[0][price_data][unit_amount]": "500",
  "line_items[0][price_data][product_data][name]": "A book",
};

test("a Checkout session is open for a day, and then it is paid or expired", async (t) => {
  const { call, control } = await stageDouble(t);
  const create = async (): Promise<string> =>
    String((await call("POST", "/v1/checkout/sessions", SESSION)).body["id"]);
  const read = async (id: string) => (await call("GET", `/v1/checkout/sessions/${id}`)).body;
  const [paid, delayed, expired] = [await create(), await create(), await create()];
  t.like(await read(paid), { status: "open", payment_status: "unpaid", amount_total: 500 });

  t.is(control.payCheckout({ sessionId: paid }), "checkout.session.completed");
  t.is(control.payCheckout({ sessionId: delayed, isDelayed: true }), "checkout.session.completed");
  control.advanceClock({ seconds: 86_400 });

  t.like(await read(paid), { status: "complete", payment_status: "paid" });
  t.like(await read(delayed), { status: "complete", payment_status: "unpaid" });
  t.like(await read(expired), { status: "expired", url: null });
  t.throws(() => control.payCheckout({ sessionId: expired }));
  t.is(
    control.settleCheckout({ sessionId: delayed, succeeds: true }),
    "checkout.session.async_payment_succeeded",
  );
  t.like(await read(delayed), { payment_status: "paid" });
  const { body } = await call("GET", "/v1/checkout/sessions", { status: "complete", limit: "1" });
  t.like(body, { has_more: true, data: [{ id: delayed }] });
});

test("a Checkout session is created once for an idempotency key, and wrong ones are rejected", async (t) => {
  const { call } = await stageDouble(t);
  const key = { "Idempotency-Key": "once" };
  const first = await call("POST", "/v1/checkout/sessions", SESSION, key);
  const again = await call("POST", "/v1/checkout/sessions", SESSION, key);
  t.is(again.body["id"], first.body["id"]);
  const other = { ...SESSION, client_reference_id: "store" };
  t.is((await call("POST", "/v1/checkout/sessions", other, key)).status, 400);

  for (const [change, code] of [
    [{ "line_items[0][price_data][unit_amount]": "49" }, "amount_too_small"],
    [{ "line_items[0][price_data][unit_amount]": "100000000" }, "amount_too_large"],
    [{ success_url: "shop.example" }, "url_invalid"],
    [{ colour: "green" }, "parameter_unknown"],
  ] as const) {
    const { status, body } = await call("POST", "/v1/checkout/sessions", { ...SESSION, ...change });
    t.is(status, 400);
    t.like(body, { error: { code } });
  }
  t.is((await call("GET", "/v1/checkout/sessions/cs_unknown")).status, 404);
});
