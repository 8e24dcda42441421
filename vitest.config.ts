/** Tests stand beside what they test; what crosses folders is in `test/`. Each run has one PostgreSQL and one Redis of its own. */
import { configDefaults, defineConfig } from 'vitest/config'
import { notRun } from './test/setup/not-run.ts'

export default defineConfig({
  resolve: { conditions: ['tenantry-source'] },
  ssr: { resolve: { conditions: ['tenantry-source'] } },
  test: {
    environment: 'node',
    reporters: ['default', './test/setup/summary-reporter.ts'],
    include: ['test/**/*.test.ts', 'src/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...notRun.flatMap(({ files }) => files)],
    setupFiles: ['test/setup/fast-tier.ts'],
    globalSetup: ['test/setup/postgres.ts', 'test/setup/redis.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 30_000,
    retry: 0,
    dangerouslyIgnoreUnhandledErrors: false,
    restoreMocks: true,
    unstubEnvs: true,
  },
})
