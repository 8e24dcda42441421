/** Samples the sessions of the server: their number by kind, against budgets, and their memory. */
import { readFileSync } from 'node:fs'
import pg from 'pg'

const EVERY_MS = 50
const OWN_NAME = 'scale sampler'

interface Seen {
  readonly name: string
  readonly startedAt: number
  samples: number
  /** Maximum of concurrent sessions, by kind. */
  readonly most: Map<string, number>
  /** Maximum of private memory of one backend, and of all, in KiB. */
  one: number
  all: number
}

export class Sampler {
  readonly faults: string[] = []
  count = 0
  readonly #client: pg.Client
  readonly #budgets: Readonly<Record<string, number>>
  #seen: Seen = seenOf('start')
  #isStopping = false
  #running: Promise<void> = Promise.resolve()

  /** @param budgets limits of sessions by kind: of the tenant login, or by `application_name` */
  static async start(url: string, budgets: Readonly<Record<string, number>>): Promise<Sampler> {
    const client = new pg.Client({ connectionString: url, application_name: OWN_NAME })
    await client.connect()
    const sampler = new Sampler(client, budgets)
    sampler.#running = sampler.#run()
    return sampler
  }

  private constructor(client: pg.Client, budgets: Readonly<Record<string, number>>) {
    this.#client = client
    this.#budgets = budgets
  }

  /** Starts a step; later samples belong to it. */
  begin(name: string): void {
    this.#seen = seenOf(name)
  }

  /** Summary of the step, as one line. */
  summary(): string {
    const { name, startedAt, samples, most, one, all } = this.#seen
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
    const sessions = [...most].map(([kind, count]) => `${kind} ${count}${this.#of(kind)}`)
    return (
      `${name}: ${seconds} s, ${samples} samples; sessions at most: ${sessions.join(', ')}; ` +
      `private memory of a backend at most ${mebibytes(one)}, of all together ${mebibytes(all)}`
    )
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    try {
      await this.#running
    } finally {
      await this.#client.end()
    }
  }

  #of(kind: string): string {
    const budget = this.#budgets[kind]
    return budget === undefined ? '' : ` of ${budget}`
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      await this.#sample()
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
    }
  }

  async #sample(): Promise<void> {
    const { rows } = await this.#client.query<{ pid: number; kind: string }>(
      `select pid, case when usename like 'tenantry\\_tenant%' then 'tenant login' when usename is null then 'starting'
         else application_name end as kind
       from pg_stat_activity where backend_type = 'client backend' and application_name <> $1`,
      [OWN_NAME],
    )
    const seen = this.#seen
    const counts = new Map<string, number>()
    let all = 0
    for (const { pid, kind } of rows) {
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
      const own = privateKiB(pid)
      all += own
      seen.one = Math.max(seen.one, own)
    }
    seen.all = Math.max(seen.all, all)
    seen.samples++
    this.count++
    for (const [kind, count] of counts) {
      seen.most.set(kind, Math.max(seen.most.get(kind) ?? 0, count))
      const budget = this.#budgets[kind]
      if (budget !== undefined && count > budget) this.faults.push(`${seen.name}: ${count} of ${kind}, not ${budget}`)
    }
  }
}

const seenOf = (name: string): Seen => ({
  name,
  startedAt: performance.now(),
  samples: 0,
  most: new Map(),
  one: 0,
  all: 0,
})

const mebibytes = (kibibytes: number): string => `${(kibibytes / 1_024).toFixed(1)} MiB`

/** Private memory of a process; 0 if it has exited, and on systems without this information. */
function privateKiB(pid: number): number {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    return [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, size]) => sum + Number(size), 0)
  } catch {
    return 0
  }
}
