declare const __RELEASES__: readonly string[];
declare const __MODELS__: readonly string[];
