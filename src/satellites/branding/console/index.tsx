/** Console module of branding. */
import { defineConsoleModule } from '../../../console/module.ts'
import { restoration } from './restoration.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'branding',
  announced: ['branding.get'],
  tabs: [
    {
      path: 'branding',
      title: text.branding,
      needs: ['branding.get'],
      order: 80,
      view: () => import('./branding.tsx'),
    },
  ],
  restorations: [restoration],
})
