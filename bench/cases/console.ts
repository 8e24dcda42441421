/** Benchmark of the console in a browser: 100,000 tenants against 600, a slow client and the size of its scripts against other products. */
import type { Browser, CDPSession, Page } from 'playwright-core'
import { createHttp } from '../../src/http/app.ts'
import { serveNode } from '../../src/http/hosts/node.ts'
import { launchBrowser } from '../../test/support/browser.ts'
import { PEERS, servePeer } from '../console-peers.ts'
import { alternate, type Bench, median, RUNS, timed } from '../measure.ts'
import { fillRegistry, TOKEN, withTenancy } from '../tenancy.ts'

const FEW = 600
const MANY = 100_000
const ROW = '.table-scroll tbody tr'
/** The number of rows of a page stays below this, however many tenants exist. */
const MAX_ROWS = 600

interface Opened {
  readonly page: Page
  readonly context: { close(): Promise<void> }
  readonly client: CDPSession
  /** Bytes of scripts as sent, before the first row is shown. */
  scriptBytes: number
  requests: number
}

/** Times in ms. */
interface Times {
  readonly rows: number
  readonly screen: number
  readonly search: number
  readonly largest: number
  readonly shift: number
}

export const consoleScreens = {
  name: 'console',
  run: async ({ postgresUrl, quick, say }: Bench) => {
    const many = quick ? 5_000 : MANY
    await using browser = await launchBrowser()
    return await withConsole(postgresUrl, FEW, (few) =>
      withConsole(postgresUrl, many, async (all) => {
        const runs = quick ? 1 : RUNS
        await visit(browser, few, FEW) // builds the console
        say(`console: ${runs} visits of each side`)
        const measured: Record<'few' | 'all', Times[]> = { few: [], all: [] }
        await alternate(runs, {
          few: async () => measured.few.push(await visit(browser, few, FEW)),
          all: async () => measured.all.push(await visit(browser, all, many)),
        })
        const of = (side: 'few' | 'all', what: keyof Times) => median(measured[side].map((times) => times[what]))
        const compared = (name: string, what: keyof Times) => {
          const [ours, reference] = [of('all', what), of('few', what)]
          return {
            name: `${name}, ${many} tenants`,
            against: `${FEW} tenants`,
            unit: 'ms',
            ours,
            reference,
            ratio: reference / ours,
            goal: 0.8,
          }
        }
        const slow: number[] = []
        for (let run = 0; run < runs; run++) slow.push(await slowRows(browser, all))
        const { bytes, requests, rows } = await sizes(browser, all)
        say('console: heap, and calls of its screens')
        const heap = await heaps(browser, all, quick ? 20 : 200)
        const calls = await slowestCalls(all, many, quick ? 5 : 100)
        const mb = (value: number) => `${(value / 1e6).toFixed(1)} MB`
        const peers = []
        for (const peer of PEERS) {
          say(`console: the scripts of ${peer.name}`)
          await using served = await servePeer(peer)
          peers.push({ name: peer.name, ...(await slowScripts(browser, served.url, runs)) })
        }
        const ms = (value: number) => `${Math.round(value)} ms`
        return [
          compared('console, rows after navigation start', 'rows'),
          compared('console, search, last key to rows', 'search'),
          { name: 'console, rows after navigation start', value: ms(of('all', 'rows')), goal: '300 ms' },
          { name: 'console, from screen to screen', value: ms(of('all', 'screen')), goal: '60 ms' },
          { name: 'console, search, last key to rows', value: ms(of('all', 'search')), goal: '250 ms' },
          { name: 'console, largest contentful paint', value: ms(of('all', 'largest')), goal: '1,000 ms' },
          { name: 'console, layout shift', value: of('all', 'shift').toFixed(3), goal: '0' },
          {
            name: 'console, rows at CPU ÷ 4, 1.6 Mbit/s, 150 ms',
            value: ms(median(slow)),
            goal: '1,500 ms',
          },
          { name: 'console, scripts before the first rows', value: `${(bytes / 1_024).toFixed(1)} kB`, goal: '150 kB' },
          { name: 'console, requests before the first rows', value: String(requests) },
          ...peers.flatMap(({ name, ...peer }) => [
            {
              name: 'console, scripts before the first rows',
              against: `${name}, first scripts`,
              unit: 'kB',
              ours: bytes / 1_024,
              reference: peer.bytes / 1_024,
              ratio: peer.bytes / bytes,
              goal: 1,
            },
            {
              name: 'console, rows at CPU ÷ 4, 1.6 Mbit/s, 150 ms',
              against: `${name}, scripts loaded, no data`,
              unit: 'ms',
              ours: median(slow),
              reference: peer.ms,
              ratio: peer.ms / median(slow),
            },
          ]),
          { name: 'console, rows in the document', value: String(rows), goal: `at most ${MAX_ROWS}` },
          { name: 'console, heap after 200 navigations', value: mb(heap.navigations), goal: '14 MB' },
          { name: 'console, heap with 600 rows', value: mb(heap.rows), goal: '28 MB' },
          ...calls.map(({ name, ms: time }) => ({
            name: `console, ${name}, 95th percentile`,
            value: ms(time),
            goal: '100 ms',
          })),
        ]
      }),
    )
  },
}

/** @param work receives the address of the console */
const withConsole = <T>(postgresUrl: string, tenants: number, work: (url: string) => Promise<T>): Promise<T> =>
  withTenancy(postgresUrl, async (tenancy) => {
    await fillRegistry(tenancy, tenants)
    const http = createHttp(tenancy, { adminTokens: [{ name: 'bench', token: TOKEN }] })
    const server = await serveNode(http, { port: 0, host: '127.0.0.1' })
    try {
      return await work(`${server.url}${http.prefix}`)
    } finally {
      await server.close(1_000)
    }
  })

async function open(browser: Browser, url: string): Promise<Opened> {
  const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1440, height: 900 } })
  await context.request.post(`${url}/session`, { data: { token: TOKEN } })
  const page = await context.newPage()
  const client = await context.newCDPSession(page)
  const opened: Opened = { page, context, client, scriptBytes: 0, requests: 0 }
  page.on('requestfinished', async (request) => {
    opened.requests++
    const sizes = request.url().endsWith('.js') ? await request.sizes().catch(() => undefined) : undefined
    opened.scriptBytes += sizes?.responseBodySize ?? 0
  })
  return opened
}

/** Time since the start of the navigation until rows are shown. */
async function shown(page: Page, url: string): Promise<number> {
  await page.goto(`${url}/console/tenants`, { waitUntil: 'commit' })
  await page.locator(ROW).first().waitFor()
  return page.evaluate('performance.now()')
}

/** @param tenants their number; no other id contains the last one */
async function visit(browser: Browser, url: string, tenants: number): Promise<Times> {
  const id = `tenant-${tenants}`
  const { page, context } = await open(browser, url)
  const rows = await shown(page, url)
  const paints = (await page.evaluate(`new Promise((resolve) => {
    let largest = 0, shift = 0
    new PerformanceObserver((list) => { for (const one of list.getEntries()) largest = one.startTime }).observe({ type: 'largest-contentful-paint', buffered: true })
    new PerformanceObserver((list) => { for (const one of list.getEntries()) shift += one.value }).observe({ type: 'layout-shift', buffered: true })
    setTimeout(() => resolve({ largest, shift }), 500)
  })`)) as { largest: number; shift: number }

  const screen = await timed(async () => {
    await page.locator('nav').getByRole('link', { name: 'Plans' }).click()
    await page.getByRole('heading', { name: 'Plans', level: 1 }).waitFor()
  })
  await page.locator('nav').getByRole('link', { name: 'Tenants' }).click()
  await page.locator('main').getByRole('searchbox').click()
  const search = await timed(async () => {
    await page.keyboard.insertText(id)
    await page.locator(ROW).nth(20).waitFor({ state: 'detached' })
    await page.locator(`${ROW}[data-id="${id}"]`).waitFor()
  })
  await context.close()
  return { rows, screen, search, ...paints }
}

async function slowRows(browser: Browser, url: string): Promise<number> {
  const { page, context, client } = await open(browser, url)
  await slowDown(client)
  const ms = await shown(page, url)
  await context.close()
  return ms
}

/** Bytes of the scripts of a page, and the median time until they have run. */
async function slowScripts(browser: Browser, url: string, runs: number): Promise<{ bytes: number; ms: number }> {
  const times: number[] = []
  let bytes = 0
  for (let run = 0; run < runs; run++) {
    const context = await browser.newContext({ locale: 'en-US' })
    const page = await context.newPage()
    await slowDown(await context.newCDPSession(page))
    await page.goto(url, { waitUntil: 'load' })
    times.push(await page.evaluate('performance.now()'))
    bytes = await page.evaluate(`performance.getEntriesByType('resource')
      .reduce((sum, { name, encodedBodySize }) => sum + (name.endsWith('.js') ? encodedBodySize : 0), 0)`)
    await context.close()
  }
  return { bytes, ms: median(times) }
}

async function slowDown(client: CDPSession): Promise<void> {
  await client.send('Emulation.setCPUThrottlingRate', { rate: 4 })
  const bytesPerSecond = 1_600_000 / 8
  await client.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 150,
    downloadThroughput: bytesPerSecond,
    uploadThroughput: bytesPerSecond,
  })
}

/** Bytes of the heap after many navigations, and with as many rows as a list keeps. */
async function heaps(browser: Browser, url: string, navigations: number) {
  const { page, context, client } = await open(browser, url)
  await client.send('Performance.enable')
  const used = async () => {
    await client.send('HeapProfiler.collectGarbage')
    const { metrics } = await client.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? Number.NaN
  }
  await shown(page, url)
  for (let count = 0; count < navigations; count++) {
    const name = count % 2 === 0 ? 'Plans' : 'Tenants'
    await page.locator('nav').getByRole('link', { name }).click()
    await page.getByRole('heading', { name, level: 1 }).waitFor()
  }
  const after = await used()
  await shown(page, url)
  for (let count = await page.locator(ROW).count(); count < MAX_ROWS; count += 50) {
    await page.getByRole('button', { name: 'Load more', exact: true }).click()
    await page.locator(ROW).nth(count).waitFor()
  }
  const rows = await used()
  await context.close()
  return { navigations: after, rows }
}

/** Each call without its first, which fills caches. */
async function slowestCalls(url: string, tenants: number, times: number) {
  const paths = {
    attention: '/attention',
    search: `/search?q=tenant-${tenants}`,
    explanation: `/tenants/tenant-${tenants}/explain`,
  }
  const results: { name: string; ms: number }[] = []
  for (const [name, path] of Object.entries(paths)) {
    const measured: number[] = []
    for (let time = 0; time <= times; time++) {
      measured.push(
        await timed(async () => {
          const response = await fetch(url + path, { headers: { 'x-admin-token': TOKEN } })
          if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
          await response.arrayBuffer()
        }),
      )
    }
    const sorted = measured.slice(1).toSorted((one, other) => one - other)
    results.push({ name, ms: sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN })
  }
  return results
}

async function sizes(browser: Browser, url: string) {
  const opened = await open(browser, url)
  await shown(opened.page, url)
  const { scriptBytes: bytes, requests } = opened
  const rows = await opened.page.locator(ROW).count()
  await opened.context.close()
  return { bytes, requests, rows }
}
