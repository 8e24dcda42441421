/** What the doctor examines of the kernel. */

import type { Kernel } from '../kernel.ts'
import { clocksDiagnosis } from './clocks.ts'
import type { Diagnosis } from './doctor.ts'
import { queueDiagnosis } from './queue.ts'
import { storeDiagnosis } from './store.ts'

const { name, summary } = storeDiagnosis

export const diagnoses: readonly Diagnosis<Kernel>[] = [
  { name, summary, examine: ({ store }, examination) => storeDiagnosis.examine(store, examination) },
  queueDiagnosis,
  clocksDiagnosis,
]
