import test from "ava";
import { createRenderings } from "../../api/standalone/dashboard/createRenderings.ts";

const MEGABYTE = 1024 * 1024;

test("the same data are rendered once, and other data again", (t) => {
  const renderings = createRenderings<object, Buffer>((page) => page.length, {
    maximumBytes: 4 * MEGABYTE,
  });
  let count = 0;
  const render = (key: string, data: object): string =>
    renderings.render(key, data, () => Buffer.from(`page ${(count += 1)}`)).toString();
  const [data, later] = [{}, {}];

  t.is(renderings.find("page", data), undefined);
  t.is(render("page", data), "page 1");
  t.is(render("page", data), "page 1");
  t.is(render("card", data), "page 2");
  t.is(renderings.find("page", later), undefined);
  t.is(render("page", later), "page 3");
  t.is(renderings.find("page", later)?.toString(), "page 3");
});

test("what was rendered is evicted by its bytes, the least used first", (t) => {
  const renderings = createRenderings<object, Buffer>((page) => page.length, {
    maximumBytes: 4 * MEGABYTE,
  });
  const data = {};
  const page = Buffer.alloc(MEGABYTE - Buffer.poolSize);
  for (let index = 0; index < 10; index += 1) {
    renderings.render(`page ${index}`, data, () => page);
    renderings.find("page 0", data);
  }
  const kept = Array.from({ length: 10 }, (_, index) => renderings.find(`page ${index}`, data));
  t.is(kept.filter(Boolean).length, 4);
  t.truthy(kept[0]);
  t.falsy(kept[1]);
});
