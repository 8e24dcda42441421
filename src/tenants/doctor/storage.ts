/** Diagnoses of storage: mismatches between the registry and the servers, and their fixes. */
import {
  type Diagnosis,
  type Examination,
  type Finding,
  notExamined,
  type Severity,
} from '../../kernel/doctor/doctor.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import type { Mismatch } from '../lifecycle/mismatches.ts'
import type { StorageReconciliation } from '../lifecycle/storage-reconciliation.ts'
import type { Tenants } from '../tenants.ts'

export const storageDiagnosis: Diagnosis<Tenants> = {
  name: 'storage',
  summary: 'Missing or left over storage; missing fences',
  examine: examineStorage,
  fix: fixStorage,
}

async function* examineStorage({ reconciliation }: Tenants, { prove, log }: Examination): AsyncIterable<Finding> {
  for (const driver of reconciliation.drivers.filter((one) => one.inventory)) {
    for (const placement of reconciliation.placements) {
      try {
        for await (const mismatch of reconciliation.mismatches(driver, placement)) {
          yield findingOf(mismatch, driver.name, placement)
        }
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
    fault: 'does not exist',
    remedy:
      'Every statement of the tenant fails. Restore the tenant from a backup (tenantry tenant:backup:restore), or restore its storage under the same name. Otherwise, delete the tenant and purge it.',
  },
  open: {
    severity: 'error',
    code: 'storage.open',
    fault: 'is open although its tenant is suspended, deleted or being moved',
    remedy:
      'Close it with tenantry doctor --fix, and check whether a worker runs: the jobs FenceTenant and, hourly, RecoverFences do the same.',
  },
  closed: {
    severity: 'info',
    code: 'storage.closed',
    fault: 'is closed although its tenant is active',
    remedy: 'The next use of the tenant opens it, or tenantry doctor --fix.',
  },
  'former open': {
    severity: 'error',
    code: 'storage.former-open',
    fault: 'is open although its tenant has left it',
    remedy: 'Close it with tenantry doctor --fix. The hourly job RecoverFences does the same.',
  },
  abandoned: {
    severity: 'warn',
    code: 'storage.abandoned',
    fault: 'was abandoned by a transfer and could not be dropped yet',
    remedy:
      'Drop it with tenantry doctor --fix; the job RecoverTransfers tries each minute, and its log has the reason of a failure.',
  },
  'left over': {
    severity: 'warn',
    code: 'storage.left-over',
    fault: 'belongs to no tenant',
    remedy: 'Inspect it, and drop it manually once it is not needed.',
  },
}

async function orphans(
  reconciliation: StorageReconciliation,
  driver: IsolationDriver,
  placement: string,
): Promise<Finding[]> {
  const registered = () => reconciliation.locations(driver.name, placement)
  const found = (await driver.orphanedRows?.(placement, registered)) ?? []
  return found.map(({ table, column, tenantId, rows }) => ({
    severity: 'warn',
    code: 'storage.orphaned-rows',
    message: `the table ${table} on "${placement}" has rows (${rows}) with the ${column} "${tenantId}", which belongs to no storage`,
    remedy:
      'No backup has them, and a new tenant with that id would see them. Check them as the role of `url`, and delete them: ' +
      `begin; set local tenantry.all_tenants = 'on'; delete from ${table} where ${column} = ${literal(tenantId)}; commit`,
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

/** Fixes by code. Each checks the finding again with the tenant's row locked, as every transition does. */
const FIXES: Readonly<Record<string, Fix>> = {
  async 'storage.open'({ fences }, tenantId) {
    await fences.close(tenantId)
    return 'closed, unless the tenant is usable by now'
  },
  async 'storage.former-open'({ fences }, tenantId, { isolation, placement, locator }) {
    await fences.closeFormer(tenantId, isolation, placement, locator)
    return 'closed, unless the tenant has returned to it'
  },
  async 'storage.closed'({ fences }, tenantId) {
    const isOpen = await fences.repair(tenantId)
    return isOpen ? 'opened' : 'left unchanged: the tenant is not usable now, or is being changed'
  },
  async 'storage.abandoned'({ transfers }, tenantId) {
    await transfers.dropAbandoned(tenantId)
    return 'dropped'
  },
}

async function fixStorage(tenants: Tenants, { code, tenantId = '', subject }: Finding): Promise<string> {
  const fix = FIXES[code]
  if (!fix) throw new Error(`no fix for ${code}`)
  return fix(tenants, tenantId, subject as Subject)
}
