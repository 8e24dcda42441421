/** Handlers and schedule of the jobs of tenants and of their transfers. */
import type { Recurring } from '../kernel/jobs/jobs.ts'
import { job } from './part.ts'
import {
  FenceTenant,
  InstallTenant,
  PurgeTenants,
  RecoverFences,
  RecoverInstallations,
  UninstallTenant,
} from './tenant/job-types.ts'
import {
  BackupTenant,
  CloneTenant,
  MoveTenant,
  RecoverTransfers,
  RestoreTenant,
  RunBackups,
} from './transfers/requests/job-types.ts'

const TRANSFERS = [BackupTenant, RestoreTenant, CloneTenant, MoveTenant]

export const jobs = [
  job(InstallTenant, ({ installation }, { tenantId }, attempt) => installation.install(tenantId, attempt)),
  job(UninstallTenant, async ({ installation }, { tenantId }) => void (await installation.purge(tenantId))),
  job(FenceTenant, ({ fences }, { tenantId }) => fences.close(tenantId)),
  job(PurgeTenants, ({ installation }) => installation.purgeExpired()),
  job(RecoverInstallations, ({ installation }) => installation.recover()),
  job(RecoverFences, ({ openStorage }) => openStorage.close()),
  ...TRANSFERS.map((type) =>
    job(type, ({ transfers }, { transferId }, attempt) => transfers.work(transferId, attempt)),
  ),
  job(RecoverTransfers, ({ transfers }) => transfers.recover()),
  job(RunBackups, ({ transfers }) => transfers.runDue()),
]

export const schedule: readonly Recurring[] = [
  { type: PurgeTenants, cron: '17 3 * * *' },
  { type: RecoverInstallations, cron: '* * * * *' },
  { type: RecoverTransfers, cron: '* * * * *' },
  { type: RunBackups, cron: '*/10 * * * *' },
  { type: RecoverFences, cron: '41 * * * *' },
]
