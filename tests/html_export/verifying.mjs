// Verifies recordings with the script of a shared page: one path a line on stdin, one verdict a line on stdout.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { verify } = await import(pathToFileURL(process.argv[2]));

for await (const path of createInterface({ input: process.stdin })) {
  const text = readFileSync(path, "utf8");
  const told = await verify(text, { pause: async () => {} });
  const { valid, events, verified, head, hashes, meanings, problems } = told;
  console.log(JSON.stringify({ valid, events, verified, head, hashes, meanings, problems }));
}
