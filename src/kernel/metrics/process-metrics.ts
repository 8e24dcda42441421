/**
 * Metrics of this process: memory, processor time, event loop, garbage collector. The names are those of prom-client, so that dashboards
 * for Node.js fit. Measuring starts with the first scrape and ends with `stop`.
 */
import { readdir } from 'node:fs/promises'
import { constants, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'
import { droppedLines } from '../base/log-destination.ts'
import { Histogram, type Sample, type Series } from './metrics.ts'

const NANOSECONDS = 1e9
const MICROSECONDS = 1e6
const MILLISECONDS = 1e3
const PERCENTILES = [50, 90, 99]
const ONE_SCRAPE_MS = 500
const GC_BOUNDS = [0.001, 0.01, 0.1, 1, 2, 5]

type Delay = ReturnType<typeof monitorEventLoopDelay>

const GC_KINDS: Readonly<Record<number, string>> = {
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weakcb',
}

export function processSeries(): Series[] {
  const collections = new Histogram(GC_BOUNDS)
  for (const kind of Object.values(GC_KINDS)) collections.begin(kind, { kind })
  let delay: Delay | undefined
  let observer: PerformanceObserver | undefined
  let isStopped = false
  let looked: ReadonlyMap<number, number> = new Map()
  let lookedAt = Number.NEGATIVE_INFINITY
  const startedAt = Math.round(Date.now() / MILLISECONDS - process.uptime())

  const watch = () => {
    if (delay || isStopped) return
    delay = monitorEventLoopDelay({ resolution: 10 })
    delay.enable()
    observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { detail, duration } = entry as typeof entry & { readonly detail: { readonly kind: number } }
        const kind = GC_KINDS[detail.kind] ?? 'other'
        collections.observe(kind, () => ({ kind }), duration / MILLISECONDS)
      }
    })
    observer.observe({ entryTypes: ['gc'] })
  }
  /** Since the previous scrape; the gauges of one scrape share one reading. */
  const lags = (): ReadonlyMap<number, number> => {
    watch()
    if (delay && performance.now() - lookedAt > ONE_SCRAPE_MS) {
      const read = delay.count > 0 ? delay : undefined
      looked = new Map(PERCENTILES.map((one) => [one, (read?.percentile(one) ?? 0) / NANOSECONDS]))
      delay.reset()
      lookedAt = performance.now()
    }
    return looked
  }
  const gauge = (name: string, help: string, value: () => number): Series => ({
    name,
    help,
    type: 'gauge',
    collect: () => [{ value: value() }],
  })
  const seconds = (name: string, help: string, value: () => number): Series => ({
    ...gauge(name, help, () => value() / MICROSECONDS),
    type: 'counter',
  })

  const stop = () => {
    isStopped = true
    delay?.disable()
    observer?.disconnect()
  }

  return [
    seconds('process_cpu_user_seconds_total', 'User processor time', () => process.cpuUsage().user),
    seconds('process_cpu_system_seconds_total', 'System processor time', () => process.cpuUsage().system),
    seconds('process_cpu_seconds_total', 'User and system processor time', () => {
      const { user, system } = process.cpuUsage()
      return user + system
    }),
    gauge('process_start_time_seconds', 'Start time of the process, in seconds since 1970', () => startedAt),
    gauge('process_resident_memory_bytes', 'Resident memory', () => process.memoryUsage.rss()),
    { name: 'process_open_fds', help: 'Open files and sockets', type: 'gauge', collect: openFiles },
    gauge('nodejs_heap_size_total_bytes', 'Size of the heap', () => process.memoryUsage().heapTotal),
    gauge('nodejs_heap_size_used_bytes', 'Used size of the heap', () => process.memoryUsage().heapUsed),
    gauge(
      'nodejs_external_memory_bytes',
      'Memory of objects outside of the heap',
      () => process.memoryUsage().external,
    ),
    {
      name: 'nodejs_active_resources',
      help: 'Resources that keep the event loop alive, by type',
      type: 'gauge',
      collect: activeResources,
    },
    ...PERCENTILES.map(
      (percentile): Series =>
        gauge(
          `nodejs_eventloop_lag_p${percentile}_seconds`,
          `Delay of timers since the previous scrape, ${percentile}th percentile`,
          () => lags().get(percentile) ?? 0,
        ),
    ),
    {
      name: 'nodejs_gc_duration_seconds',
      help: 'Duration of garbage collections since the first scrape, by kind',
      type: 'histogram',
      collect: () => {
        watch()
        return collections.samples()
      },
      stop,
    },
    {
      name: 'multitenancy_log_lines_dropped_total',
      help: 'Log lines that this process could not write',
      type: 'counter',
      collect: () => [{ value: droppedLines() }],
    },
    {
      name: 'nodejs_version_info',
      help: 'Version of Node.js',
      type: 'gauge',
      collect: () => [{ labels: { version: process.version }, value: 1 }],
    },
  ]
}

/** Returns no samples without /proc. */
async function openFiles(): Promise<Sample[]> {
  const files = await readdir('/proc/self/fd').catch(() => undefined)
  return files ? [{ value: files.length }] : []
}

function activeResources(): Sample[] {
  const counts = new Map<string, number>()
  for (const type of process.getActiveResourcesInfo()) counts.set(type, (counts.get(type) ?? 0) + 1)
  return [...counts].map(([type, value]) => ({ labels: { type }, value }))
}
