/** Actions on migration runs. */
import type { Action } from '../../../console/module.ts'
import { isRunning, type Run } from './run.ts'
import { text } from './text.ts'

export const migrationActions: readonly Action<Run>[] = [
  {
    name: 'migrationRuns.cancel',
    title: `${text.cancel}…`,
    target: 'migrationRun',
    needs: ['migrationRuns.cancel'],
    isDestructive: true,
    isAvailable: (run) => isRunning(run) && !run.isCancelled,
    view: () => import('./cancel.tsx'),
  },
]
