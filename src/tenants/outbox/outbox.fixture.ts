/** A satellite whose service stores numbers, and a tenancy with it. */
import { inject } from 'vitest'
import { z } from 'zod'
import { currentContext } from '../../kernel/base/context.ts'
import { DependencyUnavailable, invalid } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { joinedOutbox } from '../../kernel/outbox/joining.ts'
import { eachEntry, type OutboxEntry, outboxEntry } from '../../kernel/outbox/kinds.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'

export const ADD = 'ledger.add'
/** Applied by another system, which may be unavailable. */
export const EXPORT = 'ledger.export'
/** The form of a newer release. */
export const ADD_2 = 'ledger.add@2'
const Addition = z.object({ n: z.int() })

export interface Line {
  readonly tenantId: string
  readonly n: number
  readonly actor: string
}

export class Ledger {
  /** Numbers that are rejected. */
  readonly rejected = new Set<number>()
  /** Whether the system of `EXPORT` is unavailable. */
  isExportDown = false
  /** Called in the transaction that applies an entry, after its line was written. */
  onPosted = () => {}
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  async add(tenantId: string, n: number): Promise<void> {
    const outbox = joinedOutbox(tenantId)
    await (outbox ? outbox.post(ADD, { n }) : this.write(tenantId, n))
  }

  async posted({ tenantId, payload }: OutboxEntry<z.output<typeof Addition>>): Promise<void> {
    if (this.rejected.has(payload.n)) throw invalid([{ path: 'n', message: 'is rejected' }])
    await this.write(tenantId, payload.n)
    this.onPosted()
  }

  async exported({ tenantId, payload }: OutboxEntry<z.output<typeof Addition>>): Promise<void> {
    if (this.isExportDown) throw DependencyUnavailable('The other system is unavailable.')
    await this.write(tenantId, payload.n)
  }

  async write(tenantId: string, n: number): Promise<void> {
    await this.#kernel.database.sql('insert into multitenancy.ledger_lines (tenant_id, n, actor) values ($1, $2, $3)', [
      tenantId,
      n,
      currentContext().actor.id,
    ])
  }

  async lines(tenantId: string): Promise<Line[]> {
    const { rows } = await this.#kernel.database.sql(
      'select tenant_id as "tenantId", n, actor from multitenancy.ledger_lines where tenant_id = $1 order by n',
      [tenantId],
    )
    return rows
  }

  async numbers(tenantId: string): Promise<number[]> {
    return (await this.lines(tenantId)).map(({ n }) => n)
  }
}

/** @param isNewer whether it knows `ADD_2` */
export const ledger = (isNewer = false) =>
  defineSatellite({
    name: 'ledger',
    summary: 'Stores numbers',
    tables: [
      {
        name: '0001_ledger',
        up: 'create table ledger_lines (tenant_id text not null, n int not null, actor text not null)',
      },
    ],
    service: (kernel) => new Ledger(kernel),
    outbox: [
      outboxEntry(
        ADD,
        Addition,
        eachEntry((service: Ledger, entry: OutboxEntry) => service.posted(entry)),
      ),
      outboxEntry(
        EXPORT,
        Addition,
        eachEntry((service: Ledger, entry: OutboxEntry) => service.exported(entry)),
      ),
      ...(isNewer
        ? [
            outboxEntry(
              ADD_2,
              z.object({ numbers: z.array(z.int()) }),
              eachEntry(async (service: Ledger, { tenantId, payload }: OutboxEntry) => {
                for (const n of payload.numbers) await service.write(tenantId, n)
              }),
            ),
          ]
        : []),
    ],
  })

export type LedgerSatellites = [ReturnType<typeof ledger>]
export type LedgerTenancy = Tenancy<LedgerSatellites>

export const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
}

export const openLedger = (
  config: Partial<TenancyConfig<LedgerSatellites>> = {},
): Promise<TestTenancy<LedgerSatellites>> =>
  testTenancy<LedgerSatellites>(inject('postgresUrl'), { satellites: [ledger()], migrations: [NOTES], ...config })
