declare const __RELEASES__: readonly string[];
