/** Loaded with `--import`: samples the live memory of a process, and writes the maximum to standard error when the process exits. */
import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const SAMPLE_EVERY_MS = 100

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

let peak = 0
const sample = () => {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  peak = Math.max(peak, heapUsed + external)
}
setInterval(sample, SAMPLE_EVERY_MS).unref()
process.on('exit', () => {
  sample()
  writeSync(2, `peak of live memory: ${peak}\n`)
})
