/**
 * Preloaded into a process (`--import`): when the process ends, writes the packages that it has loaded, and the size of its heap, to the
 * file that START_RECORD names.
 */
import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { PerformanceObserver } from 'node:perf_hooks'

export interface StartRecord {
  readonly packages: readonly string[]
  /** Bytes reserved for the heap at the end. */
  readonly heap: number
  /** The largest value of `heap` after a garbage collection. */
  readonly largestHeap: number
}

const packages = new Set<string>()
let largestHeap = 0

registerHooks({
  load(url, context, next) {
    const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? []
    if (name !== undefined) packages.add(name)
    return next(url, context)
  },
})

new PerformanceObserver(() => {
  largestHeap = Math.max(largestHeap, process.memoryUsage().heapTotal)
}).observe({ entryTypes: ['gc'] })

process.on('exit', () => {
  const record: StartRecord = { packages: [...packages].sort(), heap: process.memoryUsage().heapTotal, largestHeap }
  writeFileSync(process.env.START_RECORD ?? '', JSON.stringify(record))
})
