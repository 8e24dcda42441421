/** What the doctor examines of the kernel. */
import { clocksDiagnosis } from './clocks-diagnosis.ts'
import type { Diagnosis } from './doctor.ts'
import type { Kernel } from './kernel.ts'
import { queueDiagnosis } from './queue-diagnosis.ts'
import { storeDiagnosis } from './store-diagnosis.ts'

const { name, summary } = storeDiagnosis

export const diagnoses: readonly Diagnosis<Kernel>[] = [
  { name, summary, examine: ({ store }, examination) => storeDiagnosis.examine(store, examination) },
  queueDiagnosis,
  clocksDiagnosis,
]
