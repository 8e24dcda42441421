/** Contexts of every component: cache of responses, and no style elements of the widgets (the policy blocks them). */
import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { client } from '../data/client.ts'

export const Provider = ({ children }: { children: ReactNode }) => (
  <CSPProvider disableStyleElements>
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  </CSPProvider>
)
