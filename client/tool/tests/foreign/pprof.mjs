// Prints what a pprof file holds as JSON, read by pprof-format: pprof.mjs PPROF-FORMAT FILE
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";

const { Profile } = createRequire(import.meta.url)(process.argv[2]);
const profile = Profile.decode(gunzipSync(readFileSync(process.argv[3])));
const text = (index) => profile.stringTable.strings[Number(index)];
const byId = (list) => new Map(list.map((one) => [Number(one.id), one]));
const [locations, functions, mappings] = [profile.location, profile.function, profile.mapping].map(byId);

const name = (id) => text(functions.get(Number(locations.get(Number(id)).line[0].functionId)).name);
const sample = ({ locationId, value, label }) => {
  const location = locations.get(Number(locationId[0]));
  const line = location.line[0];
  const of = functions.get(Number(line.functionId));
  const mapping = mappings.get(Number(location.mappingId));
  return {
    levels: locationId.slice(1).map(name),
    address: Number(location.address),
    name: text(of.name),
    file: text(of.filename),
    line: Number(line.line),
    module: mapping ? text(mapping.filename) : null,
    build: mapping ? text(mapping.buildId) : null,
    values: value.map(Number),
    labels: Object.fromEntries(label.map(({ key, str, num }) => [text(key), text(str) || Number(num)])),
  };
};
const type = ({ type, unit }) => [text(type), text(unit)];
console.log(JSON.stringify({
  types: profile.sampleType.map(type),
  period: [type(profile.periodType), Number(profile.period)],
  began: Number(profile.timeNanos),
  duration: Number(profile.durationNanos),
  comments: profile.comment.map(text),
  samples: profile.sample.map(sample),
}));
