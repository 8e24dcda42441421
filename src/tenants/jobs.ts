/** Handlers and schedule of the jobs of tenants and of their transfers. */
import { handles, type Job, type Recurring } from '../kernel/jobs/jobs.ts'
import {
  FenceTenant,
  InstallTenant,
  PurgeTenants,
  RecoverFences,
  RecoverInstallations,
  UninstallTenant,
} from './tenant/job-types.ts'
import type { Tenants } from './tenants.ts'
import {
  BackupTenant,
  CloneTenant,
  MoveTenant,
  RecoverTransfers,
  RestoreTenant,
  RunBackups,
} from './transfers/requests/job-types.ts'

const TRANSFERS = [BackupTenant, RestoreTenant, CloneTenant, MoveTenant]

export const jobs: readonly Job<Tenants>[] = [
  handles(InstallTenant, ({ installation }, { tenantId }, attempt) => installation.install(tenantId, attempt)),
  handles(UninstallTenant, async ({ installation }, { tenantId }) => void (await installation.purge(tenantId))),
  handles(FenceTenant, ({ fences }, { tenantId }) => fences.close(tenantId)),
  handles(PurgeTenants, ({ installation }) => installation.purgeExpired()),
  handles(RecoverInstallations, ({ installation }) => installation.recover()),
  handles(RecoverFences, ({ openStorage }) => openStorage.close()),
  ...TRANSFERS.map((type) =>
    handles(type, ({ transfers }: Tenants, { transferId }, attempt) => transfers.work(transferId, attempt)),
  ),
  handles(RecoverTransfers, ({ transfers }) => transfers.recover()),
  handles(RunBackups, ({ transfers }) => transfers.runDue()),
]

export const schedule: readonly Recurring[] = [
  { type: PurgeTenants, cron: '17 3 * * *' },
  { type: RecoverInstallations, cron: '* * * * *' },
  { type: RecoverTransfers, cron: '* * * * *' },
  { type: RunBackups, cron: '*/10 * * * *' },
  { type: RecoverFences, cron: '41 * * * *' },
]
