/**
 * Preloaded into a process (`--import`): when the process ends, writes the packages that it has loaded, and whether it has collected
 * all available garbage, to the file that START_RECORD names.
 */
import { writeFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { constants, PerformanceObserver } from 'node:perf_hooks'

export interface StartRecord {
  readonly packages: readonly string[]
  readonly hasCollectedAll: boolean
}

const packages = new Set<string>()
let hasCollectedAll = false

registerHooks({
  load(url, context, next) {
    const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? []
    if (name !== undefined) packages.add(name)
    return next(url, context)
  },
})

new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { detail } = entry as typeof entry & { readonly detail: { readonly flags: number } }
    if (detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE) hasCollectedAll = true
  }
}).observe({ entryTypes: ['gc'] })

process.on('exit', () => {
  const record: StartRecord = { packages: [...packages].sort(), hasCollectedAll }
  writeFileSync(process.env.START_RECORD ?? '', JSON.stringify(record))
})
