/** What the doctor says of storage: where the registry and the servers disagree, and what is put right. */
import {
  type Diagnosis,
  type Examination,
  type Finding,
  notExamined,
  type Severity,
} from '../../kernel/doctor/doctor.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import type { Mismatch, StorageReconciliation } from '../lifecycle/storage-reconciliation.ts'
import type { Tenants } from '../tenants.ts'

export const storageDiagnosis: Diagnosis<Tenants> = {
  name: 'storage',
  summary: 'Storage that is missing or left over; fences that do not stand',
  examine: examineStorage,
  fix: fixStorage,
}

async function* examineStorage({ reconciliation }: Tenants, { prove, log }: Examination): AsyncIterable<Finding> {
  for (const driver of reconciliation.drivers.filter((one) => one.inventory)) {
    for (const placement of reconciliation.placements) {
      try {
        const found = await reconciliation.mismatches(driver, placement)
        yield* found.map((mismatch) => findingOf(mismatch, driver.name, placement))
        if (prove) yield* await orphans(reconciliation, driver, placement)
      } catch (error) {
        yield notExamined(`The storage of ${driver.name} on "${placement}"`, error, log)
      }
    }
  }
}

const MISMATCHES: Readonly<
  Record<Mismatch['kind'], { severity: Severity; code: string; fault: string; remedy: string }>
> = {
  missing: {
    severity: 'error',
    code: 'storage.missing',
    fault: 'is not there',
    remedy:
      'Every statement of the tenant fails. Restore the tenant from a backup (tenantry tenant:backup:restore), or bring its storage back under the same name; else delete the tenant and have it purged.',
  },
  open: {
    severity: 'error',
    code: 'storage.open',
    fault: 'is open, though its tenant is suspended, deleted, or being moved',
    remedy:
      'Close it with tenantry doctor --fix, and see whether a worker runs: the jobs FenceTenant and, hourly, RecoverFences do the same.',
  },
  closed: {
    severity: 'info',
    code: 'storage.closed',
    fault: 'is closed, though its tenant is active',
    remedy: 'It is opened when the tenant is used next, or by tenantry doctor --fix.',
  },
  'former open': {
    severity: 'error',
    code: 'storage.former-open',
    fault: 'is open, though its tenant has left it',
    remedy: 'Close it with tenantry doctor --fix; the hourly job RecoverFences does the same.',
  },
  abandoned: {
    severity: 'warn',
    code: 'storage.abandoned',
    fault: 'was given up by a transfer and could not be dropped yet',
    remedy:
      'Drop it with tenantry doctor --fix; the job RecoverTransfers tries each minute, and its log says why it cannot.',
  },
  'left over': {
    severity: 'warn',
    code: 'storage.left-over',
    fault: 'belongs to no tenant',
    remedy: 'Look into it, and drop it by hand once nobody needs it.',
  },
}

async function orphans(
  reconciliation: StorageReconciliation,
  driver: IsolationDriver,
  placement: string,
): Promise<Finding[]> {
  const registered = () => reconciliation.locations(driver.name, placement)
  const found = (await driver.orphanedRows?.(placement, registered)) ?? []
  return found.map(({ table, tenantId, rows }) => ({
    severity: 'warn',
    code: 'storage.orphaned-rows',
    message: `the table ${table} on "${placement}" has rows (${rows}) with the tenant_id "${tenantId}", which belongs to no storage`,
    remedy:
      'No backup has them, and a new tenant with that id would see them. Check them as the role of `url`, and delete them: ' +
      `begin; set local tenantry.all_tenants = 'on'; delete from ${table} where tenant_id = ${literal(tenantId)}; commit`,
  }))
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

interface Subject {
  readonly isolation: string
  readonly placement: string
  readonly locator: string
}

function findingOf(mismatch: Mismatch, isolation: string, placement: string): Finding {
  const { severity, code, fault, remedy } = MISMATCHES[mismatch.kind]
  return {
    severity,
    code,
    message: `the storage "${mismatch.locator}" on "${placement}" ${fault}`,
    remedy,
    fixable: code in FIXES,
    subject: { isolation, placement, locator: mismatch.locator } satisfies Subject,
    ...(mismatch.kind === 'left over' ? {} : { tenantId: mismatch.tenantId }),
  }
}

type Fix = (tenants: Tenants, tenantId: string, subject: Subject) => Promise<string>

/** By code. Each looks again at what it changes, with the tenant's row locked, as every transition has it. */
const FIXES: Readonly<Record<string, Fix>> = {
  async 'storage.open'({ fences }, tenantId) {
    await fences.close(tenantId)
    return 'it is closed, unless the tenant may use it by now'
  },
  async 'storage.former-open'({ fences }, tenantId, { isolation, placement, locator }) {
    await fences.closeFormer(tenantId, isolation, placement, locator)
    return 'it is closed, unless the tenant has gone back to it by now'
  },
  async 'storage.closed'({ fences }, tenantId) {
    const isOpen = await fences.repair(tenantId)
    return isOpen ? 'it is open' : 'it was left as it is: the tenant may not use it now, or is being changed'
  },
  async 'storage.abandoned'({ transfers }, tenantId) {
    await transfers.dropAbandoned(tenantId)
    return 'it is dropped'
  },
}

async function fixStorage(tenants: Tenants, { code, tenantId = '', subject }: Finding): Promise<string> {
  const fix = FIXES[code]
  if (!fix) throw new Error(`nothing is known that puts ${code} right`)
  return fix(tenants, tenantId, subject as Subject)
}
