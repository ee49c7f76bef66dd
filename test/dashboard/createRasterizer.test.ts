import test from "ava";
import { DomainError } from "../../domain/errors.ts";
import { createRasterizer } from "../../services/dashboard/pictures/createRasterizer.ts";

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>';

// Not as if the database could not be reached, which is logged as an error that operators must act on.
test("pictures beyond those that may wait are rejected as too many", async (t) => {
  const rasterize = createRasterizer();
  const waiting = Array.from({ length: 20 }, () => rasterize(SVG));

  await t.throwsAsync(rasterize(SVG), {
    instanceOf: DomainError,
    code: "queue_full",
    message: "too many pictures are being drawn; retry later",
  });

  const pictures = await Promise.all(waiting);
  t.true(pictures.every((picture) => picture.subarray(1, 4).toString() === "PNG"));
});

test("a picture that takes too long is rejected in the same way", async (t) => {
  const hurried = createRasterizer({ deadlineMs: 1 });

  await t.throwsAsync(hurried(SVG), {
    instanceOf: DomainError,
    code: "queue_full",
    message: "the picture takes too long; retry later",
  });
});
